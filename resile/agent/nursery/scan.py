"""Finds out what a script will import by parsing its text, without running any of it.

The scan parses the script and, from there, all of the user's own modules that it finds in the
script's folder or on PYTHONPATH. The result has the names of libraries, in the order of the text,
the variables that the text sets, and all identifiers, which predict implicit imports of libraries.
A name may turn out not to be a module (`from torch.nn import Linear` yields `torch.nn.Linear`); the
nursery then skips it. A file that cannot be read or parsed is not an error here: the worker will
report it better.
"""

import ast
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path

from .environment import environ_writes
from .inside.origins import holds_packages
from .worker import CommandKind, WorkerCommand

# os.path and not pathlib for looking at files: Path.is_file raises in folders we may not read.

_MOST_FILES = 300
_MOST_BYTES = 2_000_000
"""A larger file is data or generated; the imports of a larger project are learned instead."""


@dataclass(frozen=True)
class Scan:
    """The result of a scan.

    Attributes:
        libraries: candidates for preloading, in order of appearance.
        own: top-level names of the user's own modules.
        words: every identifier in the user's own files.
        settings: variables that the user's own files set, see `environ_writes`.
    """

    libraries: tuple[str, ...] = ()
    own: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    settings: frozenset[str] = frozenset()


def scan(command: WorkerCommand, *, cwd: str, env: Mapping[str, str]) -> Scan:
    """Scan the script or module that a command runs."""
    first_path = command.first_path(cwd=cwd, env=env)
    on_path = env.get("PYTHONPATH", "").split(os.pathsep)
    entries = [first_path, *(entry for entry in on_path if not holds_packages(entry))]
    roots = [Path(cwd) / entry for entry in entries if entry]
    scanner = _Scanner(roots)
    if command.kind is CommandKind.SCRIPT:
        script = Path(cwd) / command.target
        scanner.read(script / "__main__.py" if os.path.isdir(script) else script, package="")
    elif command.kind is CommandKind.MODULE:
        scanner.read_target(command.target)
    return scanner.result()


class _Scanner:
    def __init__(self, roots: list[Path]) -> None:
        self._roots = roots
        self._libraries: dict[str, None] = {}
        self._own: set[str] = set()
        self._words: set[str] = set()
        self._settings: set[str] = set()
        self._read: set[Path] = set()

    def result(self) -> Scan:
        return Scan(
            tuple(self._libraries),
            frozenset(self._own),
            frozenset(self._words),
            frozenset(self._settings),
        )

    def read_target(self, module: str) -> None:
        """Read the file that `python -m module` would run."""
        top_level, *rest = module.split(".")
        spec = PathFinder.find_spec(top_level, [str(root) for root in self._roots])
        spec = spec or PathFinder.find_spec(top_level)
        if spec is None:
            return
        bases = [Path(place, *rest) for place in spec.submodule_search_locations or ()]
        if not bases and spec.origin:
            bases = [Path(spec.origin).with_suffix("")]
        for base in bases:
            for path, package in (
                (base / "__main__.py", module),
                (base.with_name(base.name + ".py"), module.rpartition(".")[0]),
            ):
                if os.path.isfile(path):
                    self._add(package, fromlist=())
                    self.read(path, package=package)
                    return

    def read(self, path: Path, *, package: str) -> None:
        """Read one of the user's own files and follow its imports into others."""
        path = Path(os.path.realpath(path))
        if path in self._read or len(self._read) >= _MOST_FILES:
            return
        self._read.add(path)
        for node in _nodes(path):
            self._settings.update(environ_writes(node))
            if isinstance(node, ast.Name):
                self._words.add(node.id)
            elif isinstance(node, ast.Attribute):
                self._words.add(node.attr)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    self._add(alias.name, fromlist=())
            elif isinstance(node, ast.ImportFrom):
                names = tuple(alias.name for alias in node.names if alias.name != "*")
                self._words.update(names)
                self._add(_absolute(node, package), fromlist=names)

    def _add(self, module: str, *, fromlist: tuple[str, ...]) -> None:
        if not module or module == "__future__":
            return
        top_level = module.partition(".")[0]
        root = next((root for root in self._roots if _has_module(root, top_level)), None)
        candidates = [module, *(f"{module}.{name}" for name in fromlist)]
        if root is None:
            self._libraries.update(dict.fromkeys(candidates))
            return
        self._own.add(top_level)
        for candidate in candidates:
            self._follow(root, candidate)

    def _follow(self, root: Path, module: str) -> None:
        """Read one of the user's own modules and the packages that contain it."""
        parts = module.split(".")
        for length in range(1, len(parts) + 1):
            base = root.joinpath(*parts[:length])
            package = base / "__init__.py"
            plain = base.with_name(base.name + ".py")
            if os.path.isfile(package):
                self.read(package, package=".".join(parts[:length]))
            elif os.path.isfile(plain):
                self.read(plain, package=".".join(parts[: length - 1]))


def _has_module(root: Path, top_level: str) -> bool:
    """Whether one of the user's folders has a module or package of that name.

    A folder without a Python file does not count as a package: libraries often name their output
    folders after themselves.
    """
    if os.path.isfile(root / f"{top_level}.py"):
        return True
    try:
        return any(entry.suffix == ".py" for entry in (root / top_level).iterdir())
    except OSError:
        return False


def _absolute(node: ast.ImportFrom, package: str) -> str:
    """Return the absolute name of what a `from` statement imports from; empty if it has none."""
    if not node.level:
        return node.module or ""
    parts = package.split(".") if package else []
    if node.level > len(parts):
        return ""
    parents = parts[: len(parts) - node.level + 1]
    return ".".join([*parents, node.module] if node.module else parents)


def _nodes(path: Path) -> list[ast.AST]:
    """Return a file's nodes in the order of the text, without blocks for type checkers only."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            return []
        tree = _parse(path)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError, SystemError):
        return []
    nodes: list[ast.AST] = []
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        nodes.append(node)
        if isinstance(node, ast.If) and _is_type_checking(node.test):
            pending.extend(reversed(node.orelse))
        else:
            pending.extend(reversed(list(ast.iter_child_nodes(node))))
    return nodes


def _parse(path: Path) -> ast.Module:
    """Parse a file, and retry after a SystemError.

    Python 3.11 counts the depth of a syntax tree for all threads together, and raises SystemError
    if another thread parses at the same time.
    """
    text = path.read_bytes()
    try:
        return ast.parse(text, str(path))
    except SystemError:
        return ast.parse(text, str(path))


def _is_type_checking(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")
    return bool(name == "TYPE_CHECKING")
