"""The list of modules to preload, from everything that is known about a script's imports.

There are three sources, in the order in which they become available: the script's text with the
implicit imports of its libraries (modules that a library imports only when it is used), the cache
of an earlier launch, and the reports of running workers. Implicit imports are predicted at the very
first start only; a wrong guess costs some memory and time in the nursery and does no harm.

They yield two lists. *Certain* modules may be preloaded at once: packages that are trusted, and
those that an earlier nursery imported without side effects. *Wanted* modules are all that workers
import; a nursery that is started in the background tries them.

A package must not be preloaded if the script sets a variable that the package may read before it
imports it. Running workers show whether that is so. Until then the script's text decides: a trusted
package is certain if everything that the text imports before it is trusted too and the text sets no
variable that the package mentions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from resile.exports import EXPORTS

from .environment import is_installed, mentioned
from .inside.observation import with_parents
from .inside.protocol import PreloadResult
from .inside.trusted import is_trusted, may_be_preloaded_at_once
from .inside.variables import is_per_worker
from .learned_imports import ImportFacts, PreloadCache
from .options import Preload, PreloadMode
from .scan import Scan, scan
from .worker import WorkerCommand


@dataclass(frozen=True)
class ImplicitImport:
    """If `library` is imported and one of `words` occurs in the text, `modules` are imported too.

    Without `words` they always are.
    """

    library: str
    words: frozenset[str]
    modules: tuple[str, ...]


IMPLICIT_IMPORTS = (
    # torch/_compile.py imports torch._dynamo on the first call of a decorated function; the
    # constructor of every optimizer calls one (add_param_group). 820 modules, 1.1 s.
    ImplicitImport(
        "torch",
        frozenset({"optim", "DistributedDataParallel", "FullyShardedDataParallel", "fully_shard"}),
        ("torch._dynamo",),
    ),
    # `from resile import Checkpointer` imports a hundred modules: 0.2 s in each worker.
    *(
        ImplicitImport("resile", frozenset({name}), (home,))
        for name, home in EXPORTS.items()
        if may_be_preloaded_at_once(home)
    ),
)


def implicit_imports(scan: Scan, table: Iterable[ImplicitImport] = IMPLICIT_IMPORTS) -> list[str]:
    """Return the modules that the table adds to a scan, in its order."""
    top_levels = {name.partition(".")[0] for name in scan.libraries}
    words = scan.words | {part for name in scan.libraries for part in name.split(".")}
    return [
        module
        for implicit in table
        if implicit.library in top_levels
        and (not implicit.words or not implicit.words.isdisjoint(words))
        for module in implicit.modules
    ]


class FactsStore(Protocol):
    """Storage of a preload list between launches."""

    def read(self) -> ImportFacts | None: ...

    def write(self, facts: ImportFacts) -> None: ...


_READ_LATER = frozenset(
    {
        # Intel's OpenMP reads them at the first parallel region. scikit-learn sets both.
        "KMP_DUPLICATE_LIB_OK",
        "KMP_INIT_AT_FORK",
        # torch reads it on the first query for devices. Lightning sets it.
        "PYTORCH_NVML_BASED_CUDA_CHECK",
    }
)
"""Variables that packages mention but do not read at import time."""

Mentioned = Callable[[str, Collection[str]], list[str]]


class PreloadList:
    """A growing list of modules, and those that must not be on it.

    Args:
        modules: what the text imports, in its order, followed by implicit imports.
        own: names of the user's own modules.
        settings: variables that the text sets.
        every: preload all of `modules`, because the user listed them.
    """

    def __init__(
        self,
        *,
        modules: Iterable[str],
        own: Iterable[str] = (),
        settings: Iterable[str] = (),
        every: bool = False,
        memory: FactsStore | None = None,
        mentioned: Mentioned = mentioned,
    ) -> None:
        self._memory = memory
        self._mentioned = mentioned
        self._every = every
        facts = (memory.read() if memory else None) or ImportFacts()
        self._text = list(modules)
        # An import in the text may never run; untrusted modules wait until a worker imports them.
        at_once = [name for name in self._text if every or is_trusted(name)]
        self._modules = dict.fromkeys((*facts.modules, *at_once))
        self._own = frozenset(own)
        self._settings = _of_interest(settings)
        self._passed_over = set(facts.passed_over)
        self._unfit = dict(facts.unfit)
        self._approved = set(facts.approved)
        self._changed = {package: set(names) for package, names in facts.changed.items()}
        self._mentions = {package: dict(names) for package, names in facts.mentions.items()}
        self._needs = {module: set(packages) for module, packages in facts.needs.items()}
        self._awaited, self._doubtful = self._find_uncertain()

    @classmethod
    def gather(
        cls, command: WorkerCommand, preload: Preload, *, cwd: str, env: Mapping[str, str]
    ) -> PreloadList:
        """Read the script's text and the cache, if the user's mode is `auto`."""
        if preload.mode is not PreloadMode.AUTO:
            return cls(modules=preload.modules, every=True)
        text = scan(command, cwd=cwd, env=env)
        return cls(
            modules=_candidates(command, text),
            own={*text.own, command.target},
            settings=text.settings,
            memory=PreloadCache.of(command, text, cwd=cwd, env=env),
        )

    @property
    def wanted(self) -> list[str]:
        """The modules to try to preload, in this order."""
        uncertain = self._awaited | self._doubtful
        return [
            name
            for name in self._possible()
            if name.partition(".")[0] not in uncertain and not self._is_held_back(name)
        ]

    @property
    def awaited(self) -> set[str]:
        """The packages that may depend on a variable that the script sets before their import."""
        return set(self._awaited)

    @property
    def certain(self) -> list[str]:
        """The modules that are known to be safe to preload, in this order."""
        if self._every:
            return self.wanted
        return [
            name for name in self.wanted if name in self._approved or may_be_preloaded_at_once(name)
        ]

    @property
    def mentions_torch(self) -> bool:
        return "torch" in {name.partition(".")[0] for name in self._modules}

    def learn(self, names: Iterable[str]) -> int:
        """Add modules that workers imported; return by how many the wanted list has grown."""
        before = len(self.wanted)
        self._modules.update(dict.fromkeys(name for name in names if not self._is_own(name)))
        gained = len(self.wanted) - before
        if gained:
            self._remember()
        return gained

    def note_changed(self, package: str, variables: Iterable[str]) -> None:
        """Record which variables a worker had changed when it first imported a package."""
        names = _of_interest(variables)
        known = self._changed.get(package)
        if known is None or not names <= known:
            self._changed[package] = names | (known or set())
            self._remember()

    def judge(self, package: str) -> list[str]:
        """Return the variables that the script sets before it imports a package that mentions them.

        If there are any, the package is no longer preloaded. Reads the package's files on the first
        call, which may take a second or two.
        """
        guilty = self._mentions_of(package, self._changed.get(package, set()))
        self._awaited, self._doubtful = self._find_uncertain()
        self._remember()
        return guilty

    def confirm(self, ready: PreloadResult) -> None:
        """Record which modules a usable nursery imported and which it skipped."""
        self._passed_over.update(ready.passed_over)
        self._approved.update(ready.loaded)
        self._remember()

    def blame(self, module: str, reason: str) -> None:
        """Exclude a module that made a nursery unfit to fork, with its submodules, from now on."""
        self._unfit[module] = reason
        self._remember()

    def hold_back(self, awaiting: Mapping[str, str]) -> None:
        """Exclude modules for as long as the packages that they import are awaited."""
        for module, package in awaiting.items():
            self._needs.setdefault(module, set()).add(package)
        if awaiting:
            self._remember()

    def _possible(self) -> list[str]:
        return [
            name
            for name in self._modules
            if not self._is_blocked(name) and name not in self._passed_over
        ]

    def _is_blocked(self, name: str) -> bool:
        """Whether a module or one of its parents must not be preloaded."""
        return any(each in self._unfit for each in with_parents(name))

    def _is_held_back(self, name: str) -> bool:
        """Whether a module or one of its parents imports a package that is awaited."""
        return any(not self._awaited.isdisjoint(self._needs.get(e, ())) for e in with_parents(name))

    def _is_own(self, name: str) -> bool:
        return name.partition(".")[0] in self._own or name in self._own

    def _find_uncertain(self) -> tuple[set[str], set[str]]:
        """Return the packages that may depend on a variable that the script sets before, and those
        that the text imports after an untrusted package, which may set any."""
        awaited, doubtful = set(), set()
        after_untrusted = self._imported_after_untrusted()
        for package in dict.fromkeys(name.partition(".")[0] for name in self._modules):
            if package in sys.stdlib_module_names:
                # Python code, which is observed, or compiled code without settings.
                continue
            changed = self._changed.get(package)
            if changed is None:
                settings = self._settings
                if package in after_untrusted:
                    doubtful.add(package)
            else:
                settings = changed | self._unresolved()
            if self._mentions_of(package, settings):
                awaited.add(package)
        return awaited, doubtful

    def _imported_after_untrusted(self) -> set[str]:
        """Return the packages that the text imports after an untrusted one."""
        packages = list(dict.fromkeys(name.partition(".")[0] for name in self._text))
        for at, package in enumerate(packages):
            if not is_trusted(package) and is_installed(package):
                return set(packages[at + 1 :])
        return set()

    def _mentions_of(self, package: str, variables: Collection[str]) -> list[str]:
        """Return the variables that a package mentions, from earlier results where possible."""
        known = self._mentions.setdefault(package, {})
        unknown = [name for name in variables if name not in known]
        found = self._mentioned(package, unknown) if unknown else []
        known.update({name: name in found for name in unknown})
        return sorted(name for name in variables if known[name])

    def _unresolved(self) -> set[str]:
        """Return the variables that the text sets and that no worker has reported."""
        seen = {name for names in self._changed.values() for name in names}
        return {name for name in self._settings if name not in seen and name != "*"}

    def _remember(self) -> None:
        if self._memory is not None:
            facts = ImportFacts(
                modules=tuple(self._possible()),
                passed_over=frozenset(self._passed_over),
                unfit=self._unfit,
                approved=frozenset(self._approved),
                changed={package: tuple(sorted(names)) for package, names in self._changed.items()},
                mentions=self._mentions,
                needs={module: tuple(sorted(names)) for module, names in self._needs.items()},
            )
            self._memory.write(facts)


def _candidates(command: WorkerCommand, text: Scan) -> list[str]:
    """Return the modules that the text suggests, without the one that the command runs.

    A module that is run after it was imported exists twice, and the interpreter warns about that.
    """
    target = command.target
    names = [*text.libraries, *implicit_imports(text)]
    return [name for name in names if name not in (target, f"{target}.__main__")]


def _of_interest(variables: Iterable[str]) -> set[str]:
    """Return the variables that packages may read at import time."""
    return {name for name in variables if not is_per_worker(name) and name not in _READ_LATER}
