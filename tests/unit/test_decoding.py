"""Bad input raises one error, whatever is wrong with it, and all decoding uses the helper."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from resile.decoding import (
    DecodeError,
    JsonDecoder,
    MsgpackDecoder,
    convert,
    decode_json,
    decode_msgpack,
    decode_python_json,
)

ROOT = Path(__file__).parents[2]


class Record(msgspec.Struct):
    """A struct with a number, a text and anything else."""

    number: int
    text: str
    rest: Any = None


GOOD = Record(7, "käse", {"a": [1.5, None]})

BAD_JSON = [
    b"",
    b"\xff",
    b'{"number": 7, "text": "\xff"}',
    b'{"number": 7, "text": "a", "rest": ' + b"[" * 100_000,
    b'{"number": 7, "text": "a", "unknown": ' + b'{"a":' * 100_000,
    b'{"number": "7", "text": "a"}',
    b'{"number": 7}',
    b'{"number": 1' + b"0" * 5_000 + b', "text": "a"}',
    b'{"number": 7, "text": "a", "rest": 1e999}',
    b'{"number": 7, "text": "\\ud800"}',
    b"[]",
    b"{} trailing",
]


@pytest.mark.parametrize("data", BAD_JSON, ids=range(len(BAD_JSON)))
def test_bad_json_is_one_error(data: bytes) -> None:
    for decode in (JsonDecoder[Record](Record).decode, lambda raw: decode_json(raw, Record)):
        with pytest.raises(DecodeError) as caught:
            decode(data)
        assert str(caught.value)


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff", b"\x91" * 100_000, b"\x82\xa6number\x07\xa4text\xa1\xff", b"\x80", b"\xc1"],
    ids=range(6),
)
def test_bad_msgpack_is_one_error(data: bytes) -> None:
    for decode in (MsgpackDecoder[Record](Record).decode, lambda raw: decode_msgpack(raw, Record)):
        with pytest.raises(DecodeError):
            decode(data)


def test_bad_plain_data_is_one_error() -> None:
    with pytest.raises(DecodeError, match="number"):
        convert({"number": "7", "text": "a"}, Record)


@pytest.mark.parametrize("data", [b"{", b"\xff", b"[" * 100_000])
def test_bad_json_of_python_is_one_error(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_python_json(data)


@pytest.mark.parametrize("bit", range(8))
def test_every_flipped_bit_is_read_or_is_that_error(bit: int) -> None:
    for encoded, decode in (
        (msgspec.json.encode(GOOD), decode_json),
        (msgspec.msgpack.encode(GOOD), decode_msgpack),
    ):
        assert decode(encoded, Record) == GOOD
        for position in range(len(encoded)):
            flipped = bytearray(encoded)
            flipped[position] ^= 1 << bit
            try:
                decode(bytes(flipped), Record)
            except DecodeError:
                continue


def test_no_module_of_the_library_decodes_by_itself(tmp_path: Path) -> None:
    """The rule that finds it has to be enabled, and has to find all ways."""
    source = tmp_path / "resile" / "sample.py"
    source.parent.mkdir()
    source.write_text(
        "import json\nimport msgspec\nfrom msgspec import msgpack\n"
        "a = json.loads\nb = msgspec.json.decode\nc = msgpack.Decoder\nd = msgspec.convert\n"
        "try:\n    pass\nexcept msgspec.DecodeError:\n    pass\n"
    )
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    command = [sys.executable, "-m", "ruff", "check", "--select", "TID251", "--no-cache"]
    found = subprocess.run(
        [*command, "--output-format", "concise", "."], cwd=tmp_path, capture_output=True, text=True
    )
    assert [line.split(":")[1] for line in found.stdout.splitlines() if "TID251" in line] == [
        *("4", "5", "6", "7", "10")
    ]
    clean = subprocess.run([*command, "resile"], cwd=ROOT, capture_output=True, text=True)
    assert clean.returncode == 0, clean.stdout
