"""RecordIO: written records are read, the layout is ElasticDL's, and damage is reported."""

from __future__ import annotations

import gzip
import pickle
import struct
import zlib
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resile.train.data import DataMistake, RecordDamaged
from resile.train.data.readers import Compression, RecordIOReader, RecordIOWriter
from resile.train.data.readers.recordio import snappy

compressions = st.sampled_from(list(Compression))
written = st.sampled_from([Compression.NONE, Compression.GZIP])
SNAPPY = b"\xff\x06\x00\x00sNaPpY"


def write(path: Path, records: list[bytes], **settings: object) -> None:
    with RecordIOWriter(path, **settings) as writer:  # type: ignore[arg-type]
        for record in records:
            writer.write(record)


def snappy_frame(kind: int, content: bytes) -> bytes:
    """A frame with a checksum that is not verified."""
    return bytes([kind]) + (4 + len(content)).to_bytes(3, "little") + b"\0\0\0\0" + content


def snappy_stream(data: bytes, frame: int = 1 << 16) -> bytes:
    """A stream as written by other programs."""
    codec = pyarrow.Codec("snappy")
    pieces = (data[at : at + frame] for at in range(0, len(data), frame))
    return SNAPPY + b"".join(snappy_frame(0, codec.compress(one, asbytes=True)) for one in pieces)


def snappy_chunk(records: list[bytes]) -> bytes:
    content = b"".join(struct.pack("<I", len(one)) + one for one in records)
    data = snappy_stream(content, frame=100)
    return struct.pack("<IIIII", 0x01020304, zlib.crc32(data), 1, len(data), len(records)) + data


@given(st.lists(st.binary(max_size=50), max_size=30), written, st.integers(1, 200))
@settings(deadline=None)
def test_what_is_written_is_read(
    records: list[bytes], compression: Compression, chunk_size: int
) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "data.recordio"
        write(path, records, compression=compression, chunk_size=chunk_size)
        reader = RecordIOReader(path, keep=1)
        assert list(reader) == records
        assert [reader[index] for index in reversed(range(len(records)))] == records[::-1]
        middle = len(records) // 2
        assert list(reader.read(middle, len(records))) == records[middle:]


def test_the_layout_is_the_published_one(tmp_path: Path) -> None:
    """Magic number, checksum, compression, size, number of records; then lengths and records."""
    path = tmp_path / "data.recordio"
    write(path, [b"Hello", b"", b"World!"], compression="none")
    content = b"\x05\0\0\0Hello" + b"\0\0\0\0" + b"\x06\0\0\0World!"
    header = b"\x04\x03\x02\x01" + struct.pack("<IIII", zlib.crc32(content), 0, len(content), 3)
    assert path.read_bytes() == header + content


def test_gzip_lies_over_the_whole_chunk(tmp_path: Path) -> None:
    path = tmp_path / "data.recordio"
    content = gzip.compress(b"\x02\0\0\0ab")
    header = struct.pack("<IIIII", 0x01020304, zlib.crc32(content), 2, len(content), 1)
    path.write_bytes(header + content)
    assert list(RecordIOReader(path)) == [b"ab"]


def test_snappy_is_a_framed_stream() -> None:
    plain = SNAPPY + snappy_frame(1, b"123456789")
    assert snappy.decompress(plain) == b"123456789"
    long = b"abcd" * 50_000
    assert snappy.decompress(snappy_stream(long)) == long


def test_skippable_snappy_frames_are_skipped() -> None:
    padding = b"\xfe\x03\x00\x00xyz"
    stream = SNAPPY + padding + snappy_frame(1, b"123456789")
    assert snappy.decompress(stream) == b"123456789"


def test_chunks_of_snappy_are_read(tmp_path: Path) -> None:
    path = tmp_path / "data.recordio"
    records = [bytes([number] * number) for number in range(50)]
    path.write_bytes(snappy_chunk(records[:30]) + snappy_chunk(records[30:]))
    assert list(RecordIOReader(path)) == records


@pytest.mark.parametrize(
    ("place", "what"),
    [
        (0, "the chunk at byte 0 begins with .* and not with 0x01020304"),
        (5, "the chunk at byte 0 is damaged: its checksum is wrong"),
        (8, "the chunk at byte 0 has the unknown compression"),
        (25, "the chunk at byte 0 is damaged: its checksum is wrong"),
    ],
)
def test_damage_is_named_with_its_place(tmp_path: Path, place: int, what: str) -> None:
    path = tmp_path / "data.recordio"
    write(path, [b"Hello", b"World!"])
    content = bytearray(path.read_bytes())
    content[place] ^= 0x40
    path.write_bytes(content)
    with pytest.raises(RecordDamaged, match=f"data.recordio: {what}"):
        list(RecordIOReader(path))


@given(compressions, st.integers(0, 10**6), st.integers(1, 255))
@settings(deadline=None)
def test_any_changed_byte_is_found_or_does_not_matter(
    compression: Compression, place: int, change: int
) -> None:
    records = [bytes([number] * number) for number in range(20)]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "data.recordio"
        if compression is Compression.SNAPPY:
            path.write_bytes(snappy_chunk(records[:10]) + snappy_chunk(records[10:]))
        else:
            write(path, records, compression=compression, chunk_size=60)
        content = bytearray(path.read_bytes())
        content[place % len(content)] ^= change
        path.write_bytes(content)
        with pytest.raises(RecordDamaged):
            list(RecordIOReader(path))


@pytest.mark.parametrize("left", [3, 19, 25])
def test_a_file_that_was_cut_off_is_refused(tmp_path: Path, left: int) -> None:
    path = tmp_path / "data.recordio"
    write(path, [b"Hello", b"World!"])
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(RecordDamaged, match="the chunk at byte 0 is truncated"):
        RecordIOReader(path)


@pytest.mark.parametrize("compression", ["zip", "snappy", Compression.SNAPPY])
def test_a_compression_that_is_not_written_is_named(tmp_path: Path, compression: str) -> None:
    with pytest.raises(DataMistake, match=r"'(zip|snappy)' must be one of none, gzip"):
        RecordIOWriter(tmp_path / "data.recordio", compression=compression)


def test_a_reader_can_be_sent_to_another_process(tmp_path: Path) -> None:
    write(tmp_path / "data.recordio", [b"a", b"b"])
    reader = RecordIOReader(tmp_path / "data.recordio")
    assert reader[0] == b"a"
    assert list(pickle.loads(pickle.dumps(reader))) == [b"a", b"b"]
