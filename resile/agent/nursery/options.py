"""The options of a nursery: `--preload`, and the timeouts and limits, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from .errors import PreloadSyntaxError


@dataclass(frozen=True, kw_only=True)
class NurseryPolicy:
    """Timeouts and shares, in seconds and parts of a core.

    Attributes:
        warm_up_limit: how long importing may take before the nursery is given up and workers start
            cold; longer in proportion for one with a share of a core. Far above any real import,
            since a script that imports for a minute also does so when cold.
        quiet: how long no worker must have imported anything new before the list counts as
            complete. Scripts import in bursts; two seconds tell the end of one from a pause.
        worthwhile: how many modules must have been learned for a second nursery to be started
            during a job; fewer are kept for the next launch. Each takes about a millisecond to
            import, and a second nursery takes as long as the first.
        successor_share: the share of one core that a second nursery may use while it imports
            beside a training job. With a quarter it is ready in some ten seconds and hardly felt.
        successor_attempts: how often a nursery is retried without the module that made the last
            one unfit to fork. Each attempt finds one such module, and few scripts have several.
        group_grace: how long processes that a dead worker left behind may take to exit.
            multiprocessing's resource tracker needs milliseconds.
        close_limit: how long `close` waits for a nursery process to exit by itself, beyond the
            group grace, before it is killed.
    """

    warm_up_limit: float = 300.0
    quiet: float = 2.0
    worthwhile: int = 20
    successor_share: float = 0.25
    successor_attempts: int = 4
    group_grace: float = 1.0
    close_limit: float = 5.0


class PreloadMode(Enum):
    """How the modules to preload are chosen."""

    AUTO = "auto"
    NONE = "none"
    CHECK = "check"
    LISTED = "listed"


@dataclass(frozen=True)
class Preload:
    """The choice of modules. `auto`: those that the script imports, found in its text and learned
    from its workers; `none`: nothing, all workers start cold; `check`: compare the two (see
    `check`); or exactly the listed modules."""

    mode: PreloadMode = PreloadMode.AUTO
    modules: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Preload:
        """Parse the value of the flag."""
        text = text.strip()
        if text in (mode.value for mode in PreloadMode if mode is not PreloadMode.LISTED):
            return cls(PreloadMode(text))
        modules = tuple(name.strip() for name in text.split(","))
        for name in modules:
            if not all(part.isidentifier() for part in name.split(".")):
                raise PreloadSyntaxError(
                    f"--preload: {name!r} is not the name of a module; "
                    "expected auto, none, check, or names such as torch,numpy"
                )
        return cls(PreloadMode.LISTED, modules)
