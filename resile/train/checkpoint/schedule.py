"""The steps at which snapshots and checkpoints are due.

All workers of a round save the same steps. With a fixed interval each of them computes the next one
itself. With :class:`Auto` the interval follows from measured times, which differ from worker to
worker, so rank 0 chooses it for all.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from resile.train.checkpoint.options import Auto, Costs, SnapshotInterval, choose_interval
from resile.train.checkpoint.round_channel import RoundChannel

__all__ = ["SaveSchedule"]

_ANOTHER = 0.2
"""Relative change of the interval before it is logged again: measured times vary."""


class SaveSchedule:
    """The schedule of one worker; :meth:`begin` it before the first step."""

    def __init__(
        self, every: int | Auto, *, checkpoint_every: int | None, tell: Callable[[str], None]
    ) -> None:
        self.costs = Costs()
        self._every = every
        self._checkpoint_every = checkpoint_every
        self._tell = tell
        self._channel: RoundChannel | None = None
        self._chooses = False
        self._due: int | None = None
        self._checkpointed = 0
        """The step of the last checkpoint that was due."""
        self._printed_steps: int | None = None
        self._snapshots = 0
        self._last_step_at: float | None = None

    def begin(self, step: int, channel: RoundChannel, *, chooses: bool) -> None:
        """Training resumes at ``step``. ``chooses``: this worker is rank 0."""
        self._channel, self._chooses = channel, chooses
        self._checkpointed = step
        first = self._every if isinstance(self._every, int) else self._every.first
        self._due = (step // first + 1) * first

    def step_begins(self) -> None:
        """Measure the time since the last step ended."""
        if self._last_step_at is not None:
            self.costs.note_step(time.monotonic() - self._last_step_at)

    def step_ends(self) -> None:
        """Note the time."""
        self._last_step_at = time.monotonic()

    def snapshot_due(self, done: int) -> bool:
        """Whether a snapshot is due after ``done`` steps."""
        if self._due is None:
            # Rank 0 published it before its next collective, so no worker ever waits for it here.
            self._due = self._agreed().get(f"due/{self._snapshots}", int)
        return done >= self._due

    def checkpoint_due(self, done: int) -> bool:
        """Whether a multiple of ``checkpoint_every`` was reached since the last one. All workers
        decide the same, from what they have saved, not from what rank 0 intends."""
        every = self._checkpoint_every
        return every is None or done // every > self._checkpointed // every

    def saved(self, done: int, *, durable: bool, stall: float) -> None:
        """Set the next due step: known with a fixed interval, else chosen by rank 0 for all.

        ``stall``: for how many seconds training waited for the snapshot."""
        if durable:
            self._checkpointed = done
        self.costs.note_stall(stall)
        self._snapshots += 1
        if isinstance(self._every, int):
            self._due = (done // self._every + 1) * self._every
            return
        self._due = None
        if self._chooses:
            choice = choose_interval(self._every, self.costs)
            self._say_choice(choice)
            self._agreed().put(f"due/{self._snapshots}", done + choice.steps)

    def _agreed(self) -> RoundChannel:
        assert self._channel is not None
        return self._channel

    def _say_choice(self, choice: SnapshotInterval) -> None:
        """Print the first choice, and later ones that differ from the last one printed."""
        last = self._printed_steps
        if last is None or abs(choice.steps - last) > _ANOTHER * last:
            self._printed_steps = choice.steps
            self._tell(f"snapshots {choice.reason}")
