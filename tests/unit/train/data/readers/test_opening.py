"""open_dataset finds the reader for its argument, or suggests what would be right."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from resile.train.data import DataMistake, RecordDamaged, open_dataset


def test_a_folder_is_all_its_files_by_name(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("3\n4\n")
    (tmp_path / "a.txt").write_text("1\n2\n")
    (tmp_path / "c.txt").write_text("")
    (tmp_path / ".hidden").write_text("")
    reader = open_dataset(tmp_path)
    assert list(reader) == ["1", "2", "3", "4"]
    assert [reader[2], *reader.read(1, 4)] == ["3", "2", "3", "4"]


def test_an_empty_file_of_a_folder_has_no_records(tmp_path: Path) -> None:
    """Programs that write in parts leave such files behind."""
    (tmp_path / "part-0.csv").write_text("a,b\n1,2\n")
    (tmp_path / "part-1.csv").write_text("")
    (tmp_path / "part-2.csv").write_text("a,b\n3,4\n")
    for source in (tmp_path, tmp_path / "part-*.csv", sorted(tmp_path.iterdir())):
        assert [record["a"] for record in open_dataset(source)] == ["1", "3"]
    with pytest.raises(RecordDamaged, match=r"part-1.csv is empty"):
        open_dataset(tmp_path / "part-1.csv")
    with pytest.raises(DataMistake, match="all of these files are empty"):
        open_dataset([tmp_path / "part-1.csv"] * 2)


def test_several_paths_and_patterns(tmp_path: Path) -> None:
    for name in "ba":
        (tmp_path / f"{name}.txt").write_text(f"{name}\n")
    assert list(open_dataset([tmp_path / "b.txt", str(tmp_path / "a.txt")])) == ["b", "a"]
    assert list(open_dataset(tmp_path / "*.txt")) == ["a", "b"]


def test_the_format_can_be_said(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("[1]\n")
    assert list(open_dataset(tmp_path / "data", format="jsonl")) == [[1]]


def test_arrays_give_rows() -> None:
    assert open_dataset(([1, 2, 3], "abc"))[1] == (2, "b")
    assert open_dataset({"x": [1, 2], "y": [3, 4]})[1] == {"x": 2, "y": 4}
    with pytest.raises(DataMistake, match=r"equal lengths, not \(0: 1, 1: 2\)"):
        open_dataset(([1], [1, 2]))


def test_any_class_with_a_length_and_items() -> None:
    class Squares:
        def __len__(self) -> int:
            return 5

        def __getitem__(self, index: int) -> int:
            return index * index

    reader = open_dataset(Squares())
    assert list(reader.read(1, 4)) == [1, 4, 9]
    assert open_dataset(reader) is reader


def test_a_function_gives_runs() -> None:
    reader = open_dataset(lambda start, stop: range(10 * start, 10 * stop, 10), length=5)
    assert list(reader) == [0, 10, 20, 30, 40]
    assert reader[-1] == 40


@pytest.mark.parametrize(
    ("many", "told"), [(1, "returned 1 instead of 2"), (3, "returned more instead")]
)
def test_a_function_that_gives_another_number_is_named(many: int, told: str) -> None:
    def give(start: int, stop: int) -> Iterator[int]:
        yield from range(many)

    with pytest.raises(DataMistake, match=told):
        list(open_dataset(give, length=5).read(0, 2))


@pytest.mark.parametrize(
    ("source", "options", "what"),
    [
        ("data.zip", {}, r"unsupported file extension of data.zip: supported are \.csv"),
        ("none.csv", {}, "none.csv cannot be read: No such file"),
        ("none*.csv", {}, r"no file matches none\*.csv"),
        (print, {}, "a function needs length="),
        (3, {}, "int cannot be read: pass a path"),
        ([1], {"header": True}, "header: list takes no options"),
    ],
)
def test_what_cannot_be_read_is_said(source: object, options: dict[str, object], what: str) -> None:
    with pytest.raises(DataMistake, match=what):
        open_dataset(source, **options)


def test_an_option_that_a_reader_does_not_have_is_named(tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("")
    with pytest.raises(DataMistake, match="header"):
        open_dataset(tmp_path / "data.txt", header=True)


def test_an_empty_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataMistake, match="has no files"):
        open_dataset(tmp_path)
