"""Environment variables and preloading: may a worker be forked, may a package be preloaded?

Libraries read many variables while they are imported (thread counts, allocators, log levels), so
the nursery must import with the values that the workers have. The variables that tell a worker its
place in the job are different for each; those may differ, and a module that reads one of them at
import time is not preloaded. A worker with any other difference starts cold.

A package must not be preloaded if the script sets a variable that the package reads. What a script
sets is found in its syntax tree. Reads of `os.environ` by Python code are observed in the nursery,
but compiled code reads variables through the C library. It has their names in its files, so a
package whose files do not mention a variable does not read it. A mention proves nothing; to be
safe, the package is then imported by the script itself.
"""

from __future__ import annotations

import ast
import importlib.util
import mmap
import os
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from .inside.variables import is_per_worker

ANY = "*"
"""Stands for variables whose names are not known."""

_CODE = re.compile(r"\.(py|so|pyd|dylib)$|\.so\.[0-9.]+$")
_WORD = re.compile(rb"[A-Za-z0-9_]")


def mentioned(package: str, variables: Collection[str]) -> list[str]:
    """Return the variables that occur in a package's files, sorted by name."""
    found = {name for name in variables if name == ANY}
    sought = {name for name in variables if name != ANY}
    for path in _files(package) if sought else ():
        found |= _mentioned_in(path, [name for name in sought if name not in found])
        if sought <= found:
            break
    return sorted(found)


def is_installed(package: str) -> bool:
    """Whether a top-level module is installed."""
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def _files(package: str) -> Iterator[Path]:
    """Yield the code files of a package and of the libraries bundled with it."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return
    if spec is None:
        return
    places = [Path(place) for place in spec.submodule_search_locations or ()]
    if not places and spec.has_location and spec.origin:
        yield Path(spec.origin)
    for place in [*places, *(place.with_name(f"{place.name}.libs") for place in places)]:
        for folder, _, names in os.walk(place):
            yield from (Path(folder, name) for name in names if _CODE.search(name))


def _mentioned_in(path: Path, names: list[str]) -> set[str]:
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as text:
            return {name for name in names if _has_word(text, os.fsencode(name))}
    except (OSError, ValueError):
        # Empty, or not readable.
        return set()


def _has_word(text: mmap.mmap, word: bytes) -> bool:
    at = text.find(word)
    while at >= 0:
        before, after = text[max(0, at - 1) : at], text[at + len(word) : at + len(word) + 1]
        if not _WORD.match(before) and not _WORD.match(after):
            return True
        at = text.find(word, at + 1)
    return False


_BY_NAME = frozenset({"setdefault", "pop", "putenv", "unsetenv", "__setitem__", "__delitem__"})
_ANYTHING = frozenset({"load_dotenv", "clear", "popitem"})


def environ_writes(node: ast.AST) -> Iterator[str]:
    """Yield the variables that a statement or expression sets or removes; `ANY` if unknown."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, (ast.Store, ast.Del)):
        if _is_environ(node.value):
            yield _constant(node.slice)
    elif isinstance(node, ast.Call):
        yield from _written_by_call(node)
    elif isinstance(node, ast.AugAssign) and _is_environ(node.target):
        yield from _keys(node.value)
    elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and _is_environ(node.value):
        # Writes through another name cannot be seen.
        yield ANY


def _written_by_call(call: ast.Call) -> Iterator[str]:
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    of_environ = isinstance(function, ast.Attribute) and _is_environ(function.value)
    if name == "load_dotenv" or (of_environ and name in _ANYTHING):
        yield ANY
    elif name in ("putenv", "unsetenv") or (of_environ and name in _BY_NAME):
        yield _constant(call.args[0]) if call.args else ANY
    elif of_environ and name == "update":
        yield from (keyword.arg or ANY for keyword in call.keywords)
        for argument in call.args:
            yield from _keys(argument)


def _is_environ(node: ast.expr | None) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name in ("environ", "environb")


def _constant(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ANY


def _keys(node: ast.expr) -> Iterator[str]:
    if not isinstance(node, ast.Dict):
        yield ANY
        return
    for key in node.keys:
        yield ANY if key is None else _constant(key)


def shared_variables(env: Mapping[str, str]) -> dict[str, str]:
    """Return the part of an environment that all workers of a node share."""
    return {name: value for name, value in env.items() if not is_per_worker(name)}


def differences(nursery: Mapping[str, str], worker: Mapping[str, str]) -> list[str]:
    """Return the variables, sorted by name, that keep a worker from being warm."""
    names = {name for name in (*nursery, *worker) if not is_per_worker(name)}
    return sorted(name for name in names if nursery.get(name) != worker.get(name))
