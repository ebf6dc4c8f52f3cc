"""Records of finished builds."""

from pathlib import Path

import pytest

from devcluster.images.notes import Notes


def test_notes_are_read_back(tmp_path: Path) -> None:
    Notes.read(tmp_path / "made.json").note("x:dev", key="k", digest="sha256:1")
    assert Notes.read(tmp_path / "made.json").says("x:dev", key="k", digest="sha256:1")


def test_another_key_or_digest_is_not_what_was_noted(tmp_path: Path) -> None:
    notes = Notes(tmp_path / "made.json")
    notes.note("x:dev", key="k", digest="sha256:1")
    assert not notes.says("x:dev", key="other", digest="sha256:1")
    assert not notes.says("x:dev", key="k", digest="sha256:2")
    assert not notes.says("x:dev", key="k", digest=None)
    assert not notes.says("y:dev", key="k", digest="sha256:1")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"x": 1}', '{"x": ["k"]}'])
def test_unreadable_notes_are_no_notes(tmp_path: Path, text: str) -> None:
    (tmp_path / "made.json").write_text(text)
    assert Notes.read(tmp_path / "made.json").made == {}
