"""The apt entries for the source of Kubernetes, and the patches to it."""

import pytest

from devcluster.apt_sources import source_entries
from devcluster.errors import BuildFailed
from devcluster.repairs import REPAIRS, Change, repaired


def test_entries_of_the_newer_format_ask_for_sources() -> None:
    text = "Types: deb\nURIs: file:/mirror\nSuites: bookworm\n\nTypes: deb deb-src\nURIs: file:/b\n"
    assert source_entries("debian.sources", text) == (
        "Types: deb-src\nURIs: file:/mirror\nSuites: bookworm\n\nTypes: deb-src\nURIs: file:/b\n"
    )


def test_lines_of_the_classic_format_ask_for_sources() -> None:
    text = (
        "# deb file:/old bookworm main\n"
        "deb [signed-by=/key.gpg] file:/mirror bookworm main\n"
        "deb-src [signed-by=/key.gpg] file:/mirror bookworm main\n"
        "deb file:/mirror bookworm-security main\n"
    )
    assert source_entries("sources.list", text) == (
        "deb-src [signed-by=/key.gpg] file:/mirror bookworm main\n"
        "deb-src file:/mirror bookworm-security main\n"
    )


def test_a_file_without_entries_gives_none() -> None:
    assert source_entries("empty.sources", "# nothing\n") == ""
    assert source_entries("sources.list", "") == ""


def test_repairs_are_made_once_and_in_order() -> None:
    assert repaired("a b", [Change("a", "c"), Change("c b", "d")]) == "d"


@pytest.mark.parametrize("text", ["", "x x"])
def test_source_that_is_not_as_expected_is_not_built(text: str) -> None:
    with pytest.raises(BuildFailed, match="no single passage 'x'"):
        repaired(text, [Change("x", "y")])


@pytest.mark.parametrize("name", REPAIRS)
def test_a_repair_cannot_be_made_twice(name: str) -> None:
    once = repaired("".join(change.before for change in REPAIRS[name]), REPAIRS[name])
    with pytest.raises(BuildFailed):
        repaired(once, REPAIRS[name])
