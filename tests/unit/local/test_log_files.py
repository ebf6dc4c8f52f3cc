"""Nodes' output in files: listed in natural order, and never read from elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resile.local.log_files import PIECE, list_logs, read_piece


def test_logs_are_listed_by_the_numbers_in_their_names(tmp_path: Path) -> None:
    for name in ("a-worker-10", "a-worker-9", "a-ps-0"):
        (tmp_path / f"{name}.log").touch()
    (tmp_path / "notes.txt").touch()
    (tmp_path / "folder.log").mkdir()
    assert [file.node for file in list_logs(tmp_path)] == ["a-ps-0", "a-worker-9", "a-worker-10"]


def test_a_folder_that_is_not_there_has_no_logs(tmp_path: Path) -> None:
    assert list_logs(tmp_path / "absent") == []


def test_a_piece_ends_where_the_file_or_the_patience_ends(tmp_path: Path) -> None:
    (tmp_path / "n.log").write_bytes(b"x" * (PIECE + 3))
    assert len(read_piece(tmp_path, "n", offset=0)) == PIECE
    assert read_piece(tmp_path, "n", offset=PIECE) == b"xxx"
    assert read_piece(tmp_path, "n", offset=PIECE + 3) == b""


@given(name=st.text(max_size=20) | st.sampled_from(["../secret", "a/../../secret", "/secret"]))
def test_no_name_leads_out_of_the_folder(
    tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.log").write_text("secret")
    (outside / "logs").mkdir()
    with pytest.raises(FileNotFoundError):
        read_piece(outside / "logs", name, offset=0)
