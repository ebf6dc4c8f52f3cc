"""Decides from the files on the volume whether a starting run resumes. Pure.

A request that is older than the run is never executed: the run has nothing worth saving yet, and
must not overwrite the earlier save.
"""

from __future__ import annotations

from dataclasses import dataclass

from resile.train.migrate.signals import SPENT, Signal

__all__ = ["Beginning", "Found", "Run", "begin"]

_NAMELESS = frozenset({"", "none"})
"""torchrun's ids of a run without ``--rdzv-id``."""


@dataclass(frozen=True)
class Run:
    """The identity of this run."""

    name: str
    restarted: bool
    """Whether the launcher restarted these workers after an earlier round."""

    def owns(self, claim: str) -> bool:
        """Return whether the claim is this run's. A run without a name owns only its own rounds."""
        return claim == self.claim and (self.name not in _NAMELESS or self.restarted)

    @property
    def claim(self) -> str:
        """The text that this run writes to claim a file."""
        return f"run {self.name}"


@dataclass(frozen=True)
class Found:
    """The state of the volume when a run begins."""

    signal: Signal
    saved: bool
    claim: str


@dataclass(frozen=True)
class Beginning:
    """The decision, and the new content of the files."""

    resume: bool
    signal: Signal
    claim: str | None = None
    """A new claim to write; None keeps the current one."""


def begin(found: Found, run: Run) -> Beginning:
    """Resume a save that was not loaded yet, or that this same run loaded before."""
    if not found.saved:
        return Beginning(resume=False, signal=Signal.INIT)
    asked = found.signal is Signal.SAVE and found.claim != SPENT
    if found.signal is Signal.RESUME or asked:
        return Beginning(resume=True, signal=Signal.RESUME)
    if run.owns(found.claim):
        return Beginning(resume=True, signal=Signal.INIT)
    return Beginning(resume=False, signal=Signal.INIT, claim=SPENT)
