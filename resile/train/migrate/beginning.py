"""Whether a run that begins resumes, decided from what lies on the volume. Pure.

A request that is older than the run is never carried out: the run has nothing yet that would be
worth saving, and what was saved before must not be overwritten by it.
"""

from __future__ import annotations

from dataclasses import dataclass

from resile.train.migrate.signals import SPENT, Signal

__all__ = ["Beginning", "Found", "Run", "begin"]

_NAMELESS = frozenset({"", "none"})
"""What torchrun calls a run that the user gave no name."""


@dataclass(frozen=True)
class Run:
    """Which run this is."""

    name: str
    restarted: bool
    """Whether the launcher started these workers again after an earlier round of theirs."""

    def owns(self, claim: str) -> bool:
        """Whether the claim is this run's own. A run without a name knows only its own rounds."""
        return claim == self.claim and (self.name not in _NAMELESS or self.restarted)

    @property
    def claim(self) -> str:
        """What this run writes to make a file its own."""
        return f"run {self.name}"


@dataclass(frozen=True)
class Found:
    """What lies on the volume when a run begins."""

    signal: Signal
    saved: bool
    claim: str


@dataclass(frozen=True)
class Beginning:
    """What the run does, and what the files say from then on."""

    resume: bool
    signal: Signal
    claim: str | None = None
    """A new claim to write; None leaves it."""


def begin(found: Found, run: Run) -> Beginning:
    """Resume what was saved and not yet loaded, or what this very run had loaded before."""
    if not found.saved:
        return Beginning(resume=False, signal=Signal.INIT)
    asked = found.signal is Signal.SAVE and found.claim != SPENT
    if found.signal is Signal.RESUME or asked:
        return Beginning(resume=True, signal=Signal.RESUME)
    if run.owns(found.claim):
        return Beginning(resume=True, signal=Signal.INIT)
    return Beginning(resume=False, signal=Signal.INIT, claim=SPENT)
