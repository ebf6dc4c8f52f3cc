"""Parts: whatever is laid out can be read back, by us and by the safetensors library."""

from __future__ import annotations

import json

import numpy as np
import pytest
import safetensors
from hypothesis import example, given, settings
from hypothesis import strategies as st

from resile.checkpoint.errors import PartDamaged
from resile.checkpoint.part import (
    ALIGNMENT,
    ITEM_SIZES,
    PartHeader,
    PartKind,
    Slice,
    lay_out,
    read_header,
)
from tests.unit.checkpoint.parts import make_part, noise, replica_part

shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)
plain_slices = st.builds(Slice, dtype=st.sampled_from(sorted(ITEM_SIZES)), shape=shapes)


@st.composite
def cut_slices(draw: st.DrawFn) -> Slice:
    shape = draw(shapes)
    offsets = tuple(draw(st.integers(0, 9)) for _ in shape)
    whole = tuple(offset + extent for offset, extent in zip(offsets, shape, strict=True))
    dtype = draw(st.sampled_from(sorted(ITEM_SIZES)))
    return Slice(dtype=dtype, shape=shape, whole=whole, offsets=offsets)


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
names = st.text(min_size=1, max_size=20).filter(lambda name: name != "__metadata__")
headers = st.builds(
    PartHeader,
    step=st.integers(0, 2**40),
    kind=st.sampled_from(PartKind),
    index=st.integers(0, 9999),
    count=st.integers(1, 10_000),
    world=st.integers(1, 10_000),
    slices=st.dictionaries(names, plain_slices | cut_slices(), max_size=6),
    values=values,
)


def contents_of(header: PartHeader) -> dict[str, bytes]:
    return {name: noise(name, one.size) for name, one in header.slices.items()}


@given(header=headers, room=st.integers(0, 5000))
def test_any_part_comes_back_as_it_was_laid_out(header: PartHeader, room: int) -> None:
    layout = lay_out(header, room=room)
    assert read_header(memoryview(layout.header), source="it") == (header, layout)
    assert len(layout.header) >= room
    assert len(layout.header) % ALIGNMENT == 0
    for place in layout.places.values():
        assert place.begin % ITEM_SIZES[place.slice.dtype] == 0, "tensors are aligned"


@given(header=headers)
def test_a_slot_that_is_longer_than_its_part_reads_the_same(header: PartHeader) -> None:
    part = bytes(make_part(header, contents=contents_of(header)))
    found, layout = read_header(memoryview(part + noise("behind", 100)), source="it")
    assert found == header
    assert layout.size == len(part)


@settings(deadline=None)
@given(header=headers)
def test_the_safetensors_library_reads_any_part(header: PartHeader) -> None:
    contents = contents_of(header)
    part = make_part(header, contents=contents)
    found = dict(safetensors.deserialize(bytes(part)))
    assert found.keys() == header.slices.keys()
    for name, one in header.slices.items():
        assert found[name]["dtype"] == one.dtype
        assert tuple(found[name]["shape"]) == one.shape
        assert bytes(found[name]["data"]) == contents[name]


def test_numpy_reads_a_tensor_at_its_place() -> None:
    array = np.arange(12, dtype="<f4").reshape(3, 4)
    header = PartHeader(
        step=1,
        kind=PartKind.RANK,
        index=0,
        count=1,
        world=1,
        slices={"a": Slice(dtype="F32", shape=(3, 4)), "b": Slice(dtype="U8", shape=(3,))},
    )
    part = make_part(header, contents={"a": array.tobytes(), "b": b"abc"})
    place = read_header(part, source="it")[1].places["a"]
    assert (np.frombuffer(part[place.begin : place.end], "<f4").reshape(3, 4) == array).all()


@settings(max_examples=300)
@given(data=st.binary(max_size=400))
@example(data=b"")
@example(data=(2).to_bytes(8, "little") + b"{}")
@example(data=(2).to_bytes(8, "little") + b"[]")
@example(data=(4).to_bytes(8, "little") + b"null")
@example(data=b"\xff" * 64)
def test_what_is_not_a_part_is_refused_by_name(data: bytes) -> None:
    with pytest.raises(PartDamaged, match=r"^the file"):
        read_header(memoryview(data), source="the file")


@given(position=st.integers(8, 300), letter=st.integers(0, 255))
def test_a_header_with_a_changed_byte_is_refused_or_stays_within_the_part(
    position: int, letter: int
) -> None:
    data = bytearray(replica_part(7))
    data[position] = letter
    try:
        _, layout = read_header(memoryview(data), source="the file")
    except PartDamaged:
        return
    assert all(place.begin >= len(layout.header) for place in layout.places.values())


@pytest.mark.parametrize(
    "spoil",
    [
        lambda entries: entries["model.weight0"].update(data_offsets=[-400, 0]),
        lambda entries: entries["model.weight0"].update(data_offsets=[0, 399]),
        lambda entries: entries.pop("model.weight0"),
        lambda entries: entries.update(other=entries["model.weight0"]),
        lambda entries: entries.pop("__metadata__"),
        lambda entries: entries["__metadata__"].update(resile="{}"),
    ],
)
def test_a_header_that_contradicts_itself_is_refused(spoil: object) -> None:
    data = bytes(replica_part(7))
    length = int.from_bytes(data[:8], "little")
    entries = json.loads(data[8 : 8 + length])
    spoil(entries)
    text = json.dumps(entries).encode()
    spoilt = len(text).to_bytes(8, "little") + text + data[8 + length :]
    with pytest.raises(PartDamaged):
        read_header(memoryview(spoilt), source="the file")
