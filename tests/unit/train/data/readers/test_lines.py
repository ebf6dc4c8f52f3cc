"""Text, JSON lines and CSV: every record by number, and damage with its position."""

from __future__ import annotations

import csv
import gzip
import json
import pickle
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resile.train.data import DataMistake, RecordDamaged, open_dataset
from resile.train.data.readers import CSVReader, JSONLinesReader, TextReader
from resile.train.data.readers.files import COMPRESSIONS

texts = st.text(st.characters(codec="utf-8", exclude_characters="\r\x00"), max_size=8)


@given(
    st.lists(st.lists(texts, min_size=3, max_size=3), max_size=8), st.sampled_from(["\r\n", "\n"])
)
@settings(deadline=None)
def test_csv_is_read_as_the_standard_library_wrote_it(rows: list[list[str]], end: str) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "data.csv"
        with open(path, "w", newline="") as file:
            writer = csv.writer(file, lineterminator=end, quoting=csv.QUOTE_ALL)
            writer.writerows([["a", "b\nb", 'c"'], *rows])
        reader = CSVReader(path)
        assert len(reader) == len(rows)
        expected = [dict(zip(["a", "b\nb", 'c"'], row, strict=True)) for row in rows]
        assert list(reader) == expected
        assert [reader[index] for index in range(len(rows))] == expected


def test_csv_without_a_header_gives_lists(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("1,2\n\n3,4")
    assert list(CSVReader(tmp_path / "data.csv", header=False)) == [["1", "2"], ["3", "4"]]


def test_csv_columns_are_chosen_by_name(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("\ufeffa,b,c\n1,2,3\n")
    assert CSVReader(tmp_path / "data.csv", columns=["c", "a"])[0] == {"c": "3", "a": "1"}
    with pytest.raises(DataMistake, match="has no column 'd': it has a, b, c"):
        CSVReader(tmp_path / "data.csv", columns=["d"])


def test_tabs_and_plain_quotes(tmp_path: Path) -> None:
    (tmp_path / "data.tsv").write_text('a\tb\n5" pipe\t1\n6\t2\n')
    reader = open_dataset(tmp_path / "data.tsv", quote=None)
    assert list(reader) == [{"a": '5" pipe', "b": "1"}, {"a": "6", "b": "2"}]


def test_a_quote_within_a_field_is_a_character(tmp_path: Path) -> None:
    text = 'size,what\n5" pipe,a\n6,"b\n""6"", c"\n7,it\'s 9" long\n"8",d"\n'
    (tmp_path / "data.csv").write_text(text)
    rows = list(csv.DictReader((tmp_path / "data.csv").open(newline="")))
    assert list(CSVReader(tmp_path / "data.csv")) == rows
    assert [row["size"] for row in rows] == ['5" pipe', "6", "7", "8"]


def _without_blanks(rows: list[list[str]]) -> list[list[str]]:
    """Drop blank rows: a line of spaces is a record for some readers and not for others."""
    return [row for row in rows if "".join(row).strip()]


rough = st.text(st.sampled_from('a", \n'), max_size=12)


@given(st.lists(rough, max_size=6))
@settings(deadline=None)
def test_rough_csv_is_cut_where_the_standard_library_cuts_it(lines: list[str]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "data.csv"
        path.write_text("".join(f"{line}\n" for line in lines))
        try:
            with open(path, newline="") as file:
                expected = list(csv.reader(file, strict=True))
            found = list(CSVReader(path, header=False))
        except (csv.Error, RecordDamaged):
            return
        assert _without_blanks(found) == _without_blanks(expected)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('a,b\n1,2\n"3,4\n', r"never closes; .*open it with quote=None"),
        ('a,b\n"1"2,3\n', "is not CSV.*open it with quote=None"),
        ("a;b\n1,2\n", "has 2 fields, not 1; set delimiter="),
    ],
)
def test_damage_says_what_would_work(tmp_path: Path, text: str, what: str) -> None:
    (tmp_path / "data.csv").write_text(text)
    with pytest.raises(RecordDamaged, match=what):
        list(CSVReader(tmp_path / "data.csv"))


@pytest.mark.parametrize("packing", COMPRESSIONS)
def test_compressed_lines_are_read_as_plain_ones(tmp_path: Path, packing: str) -> None:
    plain = {
        "data.csv": "a,b\n1,2\n3,4\n",
        "data.tsv": "a\tb\n1\t2\n",
        "data.jsonl": '{"a": 1}\n',
        "data.txt": "x\n",
    }
    for name, text in plain.items():
        (tmp_path / name).write_text(text)
        with COMPRESSIONS[packing](tmp_path / (name + packing), "wb") as file:
            file.write(text.encode())
        reader = open_dataset(tmp_path / (name + packing))
        assert list(reader) == list(open_dataset(tmp_path / name))
        assert pickle.loads(pickle.dumps(reader))[0] == reader[0]


def test_damaged_and_foreign_compressed_files_are_named(tmp_path: Path) -> None:
    whole = gzip.compress(b"a,b\n1,2\n" * 999)
    (tmp_path / "cut.csv.gz").write_bytes(whole[:-20])
    (tmp_path / "no.csv.gz").write_bytes(b"a,b\n")
    for name in ("cut.csv.gz", "no.csv.gz"):
        with pytest.raises(RecordDamaged, match=f"{name} cannot be decompressed"):
            open_dataset(tmp_path / name)
    (tmp_path / "data.parquet.gz").write_bytes(whole)
    with pytest.raises(DataMistake, match=r"data.parquet.gz: decompress it first.*csv, .tsv"):
        open_dataset(tmp_path / "data.parquet.gz")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('a,b\n1,2\n"3,4\n5,6\n', "the quote that opens in the line at byte 8 never closes"),
        ("a,b\n1,2\n3\n", "record 1 at byte 8, has 1 fields, not 2"),
        ("", "is empty: a header was expected"),
        ("a,a\n", "the header names a twice"),
        ('a,b\n"1"2,3\n', "record 0 at byte 4, is not CSV"),
    ],
)
def test_damaged_csv_is_named_with_its_place(tmp_path: Path, text: str, what: str) -> None:
    (tmp_path / "data.csv").write_text(text)
    with pytest.raises(RecordDamaged, match=f"data.csv.*{what}"):
        list(CSVReader(tmp_path / "data.csv"))


def test_text_keeps_empty_lines(tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_bytes("one\r\n\ntwö\nthree".encode())
    reader = TextReader(tmp_path / "data.txt")
    assert list(reader) == ["one", "", "twö", "three"]
    assert (reader[-1], reader[1]) == ("three", "")
    assert list(reader.read(1, 3)) == ["", "twö"]


def test_text_in_another_encoding_is_named(tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_bytes(b"fine\n\xff\xfe\n")
    with pytest.raises(RecordDamaged, match="record 1 at byte 5, is not utf-8"):
        TextReader(tmp_path / "data.txt")[1]


def test_json_lines(tmp_path: Path) -> None:
    values = [{"a": 1}, [2], "three", None]
    (tmp_path / "data.jsonl").write_text("\n\n".join(map(json.dumps, values)))
    assert list(JSONLinesReader(tmp_path / "data.jsonl")) == values


def test_damaged_json_is_named_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "data.jsonl").write_text('{"a": 1}\n{"a": \n')
    reader = JSONLinesReader(tmp_path / "data.jsonl")
    assert reader[0] == {"a": 1}
    with pytest.raises(RecordDamaged, match="record 1 at byte 9, is not JSON"):
        reader[1]


def test_long_files_are_read_in_runs(tmp_path: Path) -> None:
    lines = [f"{number} " + "x" * 1000 for number in range(3000)]
    (tmp_path / "data.txt").write_text("\n".join(lines))
    assert list(TextReader(tmp_path / "data.txt").read(100, 2900)) == lines[100:2900]


def test_a_file_that_shrank_is_named(tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_text("one\ntwo\n")
    reader = TextReader(path)
    path.write_text("one\n")
    with pytest.raises(RecordDamaged, match=r"data.txt ends at byte 4, before byte 8"):
        reader[1]


def test_records_that_are_not_there_are_an_index_error(tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("one\n")
    reader = TextReader(tmp_path / "data.txt")
    for outside in (1, -2):
        with pytest.raises(IndexError):
            reader[outside]
    with pytest.raises(IndexError):
        reader.read(0, 2)


def test_a_reader_can_be_sent_to_another_process(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("a\n1\n2\n")
    copy = pickle.loads(pickle.dumps(CSVReader(tmp_path / "data.csv")))
    assert list(copy) == [{"a": "1"}, {"a": "2"}]
