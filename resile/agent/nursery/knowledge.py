"""What is known about a script's imports, and therefore what to preload.

Three sources, in the order in which they become available: the script's text with the companions
of what it imports, the cache of an earlier launch, and the reports of running workers.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

from .cache import Learnt, PreloadCache
from .command import WorkerCommand
from .companions import companions
from .inside.messages import Ready
from .preload import Preload, PreloadMode
from .scan import Scan, scan


class Memory(Protocol):
    """Where knowledge outlives a launch."""

    def read(self) -> Learnt | None: ...

    def write(self, learnt: Learnt) -> None: ...


class Knowledge:
    """A growing list of modules, and those that must stay off it."""

    def __init__(
        self, *, modules: Iterable[str], own: Iterable[str] = (), memory: Memory | None = None
    ) -> None:
        self._memory = memory
        learnt = (memory.read() if memory else None) or Learnt()
        self._modules = dict.fromkeys((*learnt.modules, *modules))
        self._own = frozenset(own)
        self._passed_over = set(learnt.passed_over)
        self._unfit = dict(learnt.unfit)

    @classmethod
    def gather(
        cls, command: WorkerCommand, preload: Preload, *, cwd: str, env: Mapping[str, str]
    ) -> "Knowledge":
        """Read the script's text and the cache, as far as the user wants that."""
        if preload.mode is not PreloadMode.AUTO:
            return cls(modules=preload.modules)
        text = scan(command, cwd=cwd, env=env)
        return cls(
            modules=_candidates(command, text),
            own={*text.own, command.target},
            memory=PreloadCache.of(command, text, cwd=cwd, env=env),
        )

    @property
    def modules(self) -> list[str]:
        """What to preload, in this order."""
        return [
            name
            for name in self._modules
            if name not in self._unfit and name not in self._passed_over
        ]

    @property
    def mentions_torch(self) -> bool:
        return "torch" in {name.partition(".")[0] for name in self._modules}

    def learn(self, names: Iterable[str]) -> int:
        """Take in what workers imported; return how many more modules are now to be preloaded."""
        before = len(self.modules)
        self._modules.update(dict.fromkeys(name for name in names if not self._is_own(name)))
        gained = len(self.modules) - before
        if gained:
            self._remember()
        return gained

    def confirm(self, ready: Ready) -> None:
        """Take in what a fit nursery could import and what not, and remember it."""
        self._passed_over.update(ready.passed_over)
        self._remember()

    def blame(self, module: str, reason: str) -> None:
        """Keep a module that made a nursery unfit off the list from now on."""
        self._unfit[module] = reason
        self._remember()

    def _is_own(self, name: str) -> bool:
        return name.partition(".")[0] in self._own or name in self._own

    def _remember(self) -> None:
        if self._memory is not None:
            modules = tuple(self.modules)
            self._memory.write(Learnt(modules, frozenset(self._passed_over), self._unfit))


def _candidates(command: WorkerCommand, text: Scan) -> list[str]:
    """Return what the text suggests, without the module that is itself to be run.

    Run after it was imported, a module exists twice, and the interpreter warns of that.
    """
    target = command.target
    names = [*text.libraries, *companions(text)]
    return [name for name in names if name not in (target, f"{target}.__main__")]
