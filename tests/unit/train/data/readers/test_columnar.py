"""Parquet and Arrow files by row."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import pytest

from resile.train.data import DataMistake, ReaderMissing, RecordDamaged, open_dataset
from resile.train.data.readers import ParquetReader

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

ROWS = [{"a": number, "b": str(number), "c": [number] * 2} for number in range(25)]


def write(folder: Path, ending: str) -> Path:
    path = folder / f"data{ending}"
    table = pa.Table.from_pylist(ROWS)
    if ending == ".parquet":
        pq.write_table(table, path, row_group_size=7)
    elif ending == ".feather":
        from pyarrow import feather

        feather.write_feather(table, str(path), chunksize=7)
    else:
        new = pa.ipc.new_file if ending == ".arrow" else pa.ipc.new_stream
        with pa.OSFile(str(path), "wb") as sink, new(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=7)
    return path


ENDINGS = [".parquet", ".arrow", ".feather", ".arrows"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_row_is_found(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path, ending)
    reader = open_dataset(path, format="arrow" if ending == ".arrows" else None)
    assert list(reader) == ROWS
    assert [reader[index] for index in range(-25, 25)] == ROWS + ROWS
    assert list(reader.read(5, 22)) == ROWS[5:22]
    assert list(pickle.loads(pickle.dumps(reader))) == ROWS


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
def test_columns_are_chosen_by_name(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path, ending)
    assert open_dataset(path, columns=["b"])[24] == {"b": "24"}
    with pytest.raises(DataMistake, match="has no column 'd': it has a, b, c"):
        open_dataset(path, columns=["d"])


def test_only_so_many_row_groups_are_kept(tmp_path: Path) -> None:
    reader = ParquetReader(write(tmp_path, ".parquet"), keep=1)
    assert [reader[index]["a"] for index in (0, 24, 1, 23)] == [0, 24, 1, 23]


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
def test_damage_is_named(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"data{ending}"
    path.write_bytes(b"this is something else entirely, and long enough to look at")
    with pytest.raises(RecordDamaged, match=f"data{ending} cannot be read"):
        open_dataset(path)


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
def test_a_file_that_is_not_there_is_named(tmp_path: Path, ending: str) -> None:
    with pytest.raises(DataMistake, match=f"data{ending} cannot be read: No such file"):
        open_dataset(tmp_path / f"data{ending}")


def test_without_pyarrow_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ReaderMissing, match=r"pip install 'resile\[parquet\]'"):
        open_dataset(tmp_path / "data.parquet")
