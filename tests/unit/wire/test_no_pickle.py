"""Code that reads data from peers must not be able to execute it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import resile

ROOMS = ("wire", "master", "agent", "job", "control", "cli")
DANGEROUS = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "marshal", "shelve"}
ROOT = Path(resile.__file__).parent
MODULES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))


def imported(path: Path) -> set[str]:
    """The top-level names of all modules that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_no_module_of_ours_unpickles(room: str) -> None:
    modules = [path for path in MODULES if path.is_relative_to(ROOT / room)]
    assert modules
    assert {
        path.name: imported(path) & DANGEROUS for path in modules if imported(path) & DANGEROUS
    } == {}


@pytest.mark.parametrize("room", ["wire", "master"])
def test_what_reads_peers_words_evaluates_none_of_them(room: str) -> None:
    for path in (ROOT / room).rglob("*.py"):
        called = {
            node.func.id
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert not called & {"eval", "exec", "compile", "__import__"}, path
