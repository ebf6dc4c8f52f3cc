"""Whole tensors out of slices, and one plain file out of a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import load_file

from resile.checkpoint.catalog import CheckpointCatalog
from resile.checkpoint.errors import NoCheckpoint, PartDamaged
from resile.checkpoint.export import only_below, open_parts, runs, whole_tensors, write_safetensors
from resile.checkpoint.part import PartHeader, PartKind, PartLayout, Slice, read_header
from resile.checkpoint.storage.local import LocalStorage
from tests.unit.checkpoint.parts import make_part, noise, save


@dataclass
class PartInMemory:
    header: PartHeader
    layout: PartLayout
    data: memoryview

    def read(self, begin: int, end: int) -> memoryview:
        return self.data[begin:end]


def part_in_memory(
    slices: dict[str, Slice],
    contents: dict[str, bytes],
    *,
    kind: PartKind = PartKind.RANK,
    index: int = 0,
) -> PartInMemory:
    header = PartHeader(step=1, kind=kind, index=index, count=9, world=9, slices=slices)
    data = make_part(header, contents=contents)
    return PartInMemory(*read_header(data, source="it"), data)


def slice_of(array: np.ndarray, where: tuple[slice, ...]) -> tuple[Slice, bytes]:
    cut = array[where]
    offsets = tuple(one.start for one in where)
    one = Slice(dtype="I32", shape=cut.shape, whole=array.shape, offsets=offsets)
    return one, cut.tobytes()


@st.composite
def grids(draw: st.DrawFn) -> tuple[np.ndarray, list[tuple[slice, ...]]]:
    """An array, cut along each of its dimensions, evenly or not, also into empty slices."""
    shape = tuple(draw(st.lists(st.integers(0, 5), max_size=3)))
    axes = []
    for extent in shape:
        cuts = sorted(draw(st.lists(st.integers(0, extent), max_size=2)))
        axes.append([slice(first, last) for first, last in pairwise([0, *cuts, extent])])
    array = np.arange(int(np.prod(shape)), dtype="<i4").reshape(shape)
    return array, list(product(*axes))


@given(grid=grids())
def test_the_runs_of_a_slice_are_its_elements(
    grid: tuple[np.ndarray, list[tuple[slice, ...]]],
) -> None:
    array, cuts = grid
    flat = array.ravel()
    for where in cuts:
        cut = array[where]
        offsets = tuple(one.start for one in where)
        found = list(runs(cut.shape, offsets, whole=array.shape))
        assert sum(length for _, _, length in found) == cut.size
        for source, target, length in found:
            mine, theirs = cut.ravel()[source : source + length], flat[target : target + length]
            assert (mine == theirs).all()


@given(grid=grids(), twice=st.booleans())
def test_a_tensor_is_put_together_from_any_grid_of_slices(
    grid: tuple[np.ndarray, list[tuple[slice, ...]]], twice: bool
) -> None:
    array, cuts = grid
    parts = []
    for index, where in enumerate(cuts * 2 if twice else cuts):
        one, data = slice_of(array, where)
        parts.append(part_in_memory({"t": one}, {"t": data}, index=index))
    whole = whole_tensors(parts)["t"]
    assert whole.shape == array.shape
    assert bytes(whole.read()) == array.tobytes()


def test_a_tensor_that_lacks_a_slice_is_damaged() -> None:
    array = np.arange(12, dtype="<i4").reshape(4, 3)
    one, data = slice_of(array, (slice(0, 2), slice(0, 3)))
    with pytest.raises(PartDamaged, match="the slices of t do not cover it"):
        whole_tensors([part_in_memory({"t": one}, {"t": data})])


def test_a_slice_outside_of_its_tensor_is_damage() -> None:
    one = Slice(dtype="U8", shape=(2,), whole=(2,), offsets=(1,))
    with pytest.raises(PartDamaged, match="t has an impossible shape"):
        whole_tensors([part_in_memory({"t": one}, {"t": b"ab"})])


def test_what_each_rank_has_for_itself_is_left_out() -> None:
    parts = [
        part_in_memory({"random": Slice(dtype="U8", shape=(2,))}, {"random": b"ab"}, index=index)
        for index in range(2)
    ]
    assert whole_tensors(parts) == {}


def test_an_exported_file_is_read_by_the_safetensors_library(tmp_path: Path) -> None:
    catalog = CheckpointCatalog(LocalStorage(tmp_path / "checkpoints"))
    save(catalog.storage, 30)
    seen: list[int] = []
    with open_parts(catalog, catalog.at(30)) as parts:
        tensors = whole_tensors(parts)
        write_safetensors(
            tensors,
            step=30,
            storage=LocalStorage(tmp_path),
            path="all.safetensors",
            progress=seen.append,
        )
    found = load_file(tmp_path / "all.safetensors")
    assert found["model.weight0"].tobytes() == noise("/30/replica0", 400)
    assert found["model.shard"].shape == (6, 5)
    assert found["model.shard"].tobytes() == noise("/30/0", 60) + noise("/30/1", 60)
    assert sum(seen) == 520
    with safe_open(tmp_path / "all.safetensors", "np") as file:
        assert file.metadata() == {"format": "pt", "step": "30"}


def test_one_entry_of_the_state_keeps_its_own_names(tmp_path: Path) -> None:
    one = Slice(dtype="U8", shape=(1,))
    contents = {"model.a.b": b"1", "models.a": b"2", "optimizer.a": b"3"}
    part = part_in_memory(dict.fromkeys(contents, one), contents, kind=PartKind.REPLICA)
    tensors = whole_tensors([part])
    assert set(only_below(tensors, "model")) == {"a.b"}
    with pytest.raises(NoCheckpoint, match="'nothing'; it has model, models, optimizer"):
        only_below(tensors, "nothing")
