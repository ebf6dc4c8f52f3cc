"""The imports of a script: reported by workers, cached for the next launch.

Warm workers write lines (see `inside.import_recorder`) to a pipe that the agent reads. Names of
known modules are dropped; when no new name has arrived for a while, the new ones are passed on. All
other reports are passed on at once, the first time they arrive.

The cache is one small JSON file per script, in `$XDG_CACHE_HOME/resile/preload` (`~/.cache` by
default), named by a hash of the script's path, its import statements and settings, and the
interpreter. It holds a fingerprint of the installed packages, and is ignored after a package was
installed. A cache that cannot be read or written only causes a log line at debug level.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import os
import secrets
import sys
import sysconfig
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from resile.decoding import decode_python_json
from resile.system.regular_files import read_regular_file

from .inside.import_recorder import Changed, Imported, ImportReport, UnfitPackage, parse
from .scan import Scan
from .worker import WorkerCommand

_log = logging.getLogger(__name__)

_LARGEST = 16 << 20
"""Bytes: a hundred times the size for the largest project."""


@dataclass(frozen=True)
class ImportFacts:
    """The facts learned about a script's imports.

    Attributes:
        modules: modules that workers imported and a nursery could preload.
        passed_over: names that workers imported that are missing or not part of a library.
        unfit: modules that must not be preloaded, each with what it did.
        approved: modules that a nursery has imported without side effects.
        changed: the variables that a worker had changed when it first imported a package.
        mentions: whether the files of a package mention a variable.
        needs: packages that a module imports, where that has mattered.
    """

    modules: tuple[str, ...] = ()
    passed_over: frozenset[str] = frozenset()
    unfit: Mapping[str, str] = field(default_factory=dict)
    approved: frozenset[str] = frozenset()
    changed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    mentions: Mapping[str, Mapping[str, bool]] = field(default_factory=dict)
    needs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class PreloadCache:
    """The cache file of one command."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(
        cls, command: WorkerCommand, scan: Scan, *, cwd: str, env: Mapping[str, str]
    ) -> PreloadCache | None:
        """Return the cache of a command; `None` if there is no home directory."""
        if not env.get("XDG_CACHE_HOME") and not env.get("HOME"):
            return None
        home = Path(env.get("XDG_CACHE_HOME") or Path(env["HOME"]) / ".cache")
        identity = [
            command.kind.name,
            str(Path(cwd).absolute() / command.target),
            sys.executable,
            sys.version,
            list(scan.libraries),
            sorted(scan.settings),
        ]
        name = hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32]
        return cls(home / "resile" / "preload" / f"{name}.json")

    def read(self) -> ImportFacts | None:
        """Return the content, `None` if there is none or it no longer applies."""
        try:
            content = decode_python_json(read_regular_file(self.path, limit=_LARGEST))
            if content["installed"] != _installed():
                return None
            return ImportFacts(
                modules=tuple(_strings(content["modules"])),
                passed_over=frozenset(_strings(content["passed_over"])),
                unfit={str(name): str(reason) for name, reason in content["unfit"].items()},
                approved=frozenset(_strings(content["approved"])),
                changed={
                    str(package): tuple(_strings(names))
                    for package, names in content["changed"].items()
                },
                mentions={
                    str(package): {str(name): bool(there) for name, there in names.items()}
                    for package, names in content["mentions"].items()
                },
                needs={
                    str(module): tuple(_strings(packages))
                    for module, packages in content["needs"].items()
                },
            )
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            _log.debug("cannot use the preload cache %s: %s", self.path, error)
            return None

    def write(self, facts: ImportFacts) -> None:
        """Write the content, replacing the file atomically."""
        content = {
            "installed": _installed(),
            "modules": facts.modules,
            "passed_over": sorted(facts.passed_over),
            "unfit": dict(facts.unfit),
            "approved": sorted(facts.approved),
            "changed": dict(facts.changed),
            "mentions": dict(facts.mentions),
            "needs": dict(facts.needs),
        }
        # Several threads write, and agents in other pid namespaces may share the folder.
        draft = self.path.with_suffix(f".{secrets.token_hex(8)}")
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft.write_text(json.dumps(content))
            draft.replace(self.path)
        except OSError as error:
            _log.debug("cannot write the preload cache %s: %s", self.path, error)
            with contextlib.suppress(OSError):
                draft.unlink()


def _strings(values: Any) -> list[str]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise TypeError("not a list of strings")
    return values


def _installed() -> list[int]:
    """Return a fingerprint of the installed packages: when their folders last changed."""
    folders = {Path(sysconfig.get_path(kind)) for kind in ("purelib", "platlib")}
    return [folder.stat().st_mtime_ns for folder in sorted(folders) if folder.is_dir()]


_READ_BYTES = 1 << 16


class ImportReports:
    """The reading end of the pipe, with a timer."""

    def __init__(
        self,
        *,
        quiet: float,
        on_quiet: Callable[[list[str]], None],
        on_remark: Callable[[Changed | UnfitPackage], None],
    ) -> None:
        self._quiet = quiet
        self._on_remark = on_remark
        self._remarks: set[ImportReport] = set()
        self._on_quiet = on_quiet
        self._loop = asyncio.get_running_loop()
        self._read, self.write_end = os.pipe()
        os.set_blocking(self._read, False)
        self._loop.add_reader(self._read, self._receive)
        self._partial = b""
        self._known: set[str] = set()
        self._new: dict[str, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def know(self, names: Iterable[str]) -> None:
        """Add names to the known ones."""
        self._known.update(names)

    def take(self) -> list[str]:
        """Return the names that were not passed on yet, and mark them as passed on."""
        self._receive()
        if self._timer is not None:
            self._timer.cancel()
        names, self._new = list(self._new), {}
        self._known.update(names)
        return names

    def close(self) -> list[str]:
        """Stop reading; return the names that were not passed on yet."""
        names = self.take()
        self._loop.remove_reader(self._read)
        os.close(self._read)
        os.close(self.write_end)
        return names

    def _receive(self) -> None:
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._read, _READ_BYTES)
            *lines, self._partial = (self._partial + data).split(b"\n")
            self._sort([parse(line.decode(errors="replace")) for line in lines])

    def _sort(self, reports: Iterable[ImportReport]) -> None:
        self._take(report.name for report in reports if isinstance(report, Imported))
        for report in reports:
            if not isinstance(report, Imported) and report not in self._remarks:
                self._remarks.add(report)
                self._on_remark(report)

    def _take(self, names: Iterable[str]) -> None:
        fresh = [name for name in names if name not in self._known and name not in self._new]
        if not fresh:
            return
        self._new.update(dict.fromkeys(fresh))
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(self._quiet, self._hand_on)

    def _hand_on(self) -> None:
        names, self._new = list(self._new), {}
        self._known.update(names)
        self._on_quiet(names)
