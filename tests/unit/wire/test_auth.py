"""Tokens: created, stored, found and compared."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resile.wire.auth import (
    TOKEN_FILE_VARIABLE,
    TOKEN_VARIABLE,
    AuthError,
    Scope,
    Tokens,
    checked,
    given_token,
    new_token,
    read_token,
    read_token_of,
    shared_token,
    write_private,
)

GOOD = "a-token-that-is-long-enough"


@pytest.fixture(autouse=True)
def _no_tokens_around(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    monkeypatch.delenv(TOKEN_FILE_VARIABLE, raising=False)


def test_new_tokens_are_good_and_never_the_same() -> None:
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(checked(token, source="it") == token for token in tokens)


@pytest.mark.parametrize(
    "token", ["", "short", "x" * 15, "with a space in it", "ä" * 20, "a\tb" * 9]
)
def test_tokens_that_can_be_guessed_or_not_be_sent_are_refused(token: str) -> None:
    with pytest.raises(AuthError, match="the source"):
        checked(token, source="the source")


def test_only_the_token_itself_authorizes() -> None:
    assert Tokens(GOOD).bearer(f"Bearer {GOOD}") is Scope.WRITE
    assert Tokens(GOOD).bearer(f"Bearer {read_token_of(GOOD)}") is Scope.READ


@given(st.none() | st.text(max_size=60) | st.binary(max_size=60))
def test_nothing_else_does(header: str | bytes | None) -> None:
    if isinstance(header, bytes):
        header = header.decode(errors="surrogateescape")
    assert Tokens(GOOD).bearer(header) is None


def test_the_flag_goes_before_the_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "flag").write_text("the-token-of-the-flag\n")
    (tmp_path / "file").write_text("the-token-of-the-file\n")
    assert given_token(None) is None
    monkeypatch.setenv(TOKEN_FILE_VARIABLE, str(tmp_path / "file"))
    assert given_token(None) == "the-token-of-the-file"
    monkeypatch.setenv(TOKEN_VARIABLE, "the-token-of-the-variable")
    assert given_token(None) == "the-token-of-the-variable"
    assert given_token(str(tmp_path / "flag")) == "the-token-of-the-flag"


def test_a_bad_variable_is_named_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "tiny")
    with pytest.raises(AuthError, match=r"\$RESILE_TOKEN") as error:
        given_token(None)
    assert "tiny" not in str(error.value)


def test_a_shared_token_is_made_once_and_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "run" / "token"
    with ThreadPoolExecutor(8) as threads:
        tokens = set(threads.map(lambda _: shared_token(path), range(32)))
    assert tokens == {read_token(path)}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [entry.name for entry in path.parent.iterdir()] == ["token"]


def test_whatever_the_umask_others_get_nothing(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        shared_token(tmp_path / "run" / "token")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "run" / "token").stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_a_shared_token_that_others_can_read_is_not_used(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "token"
    path.write_text(GOOD)
    path.chmod(mode)
    with pytest.raises(AuthError, match="open to other users"):
        shared_token(path)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AuthError, match=r"cannot be made: Not a directory"):
        shared_token(tmp_path / "file" / "run" / "token")


def test_a_private_file_never_replaces_another(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("precious")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(FileExistsError):
        write_private(tmp_path / "link", "text")
    assert (tmp_path / "target").read_text() == "precious"
