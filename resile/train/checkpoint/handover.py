"""The worker's part of a handover: save the step chosen for a planned change, then hold.

The agent sends the request on a page of shared memory. Once every worker of the job has the
request, rank 0 publishes the chosen step in the round's store: the next one. It does so before that
step's collective, and the others check after it, so all of them know in time, without a message in
ordinary steps.

A handover may be cancelled, and another may follow in the same round: each has a number. Holding
ends when the process ends, when the agent cancels it, or at the deadline on the page, so that
training never stalls because of a master that died.
"""

from __future__ import annotations

import time

from resile.checkpoint.handover import HandoverPage
from resile.checkpoint.keeping.memory import SnapshotMemory
from resile.train.checkpoint.agreement import Agreement

__all__ = ["Handover"]

_LOOK = 0.01


class Handover:
    """One worker's part in the planned change of a round, if one comes."""

    def __init__(self, channel: Agreement, memory: SnapshotMemory, page: HandoverPage) -> None:
        self._channel = channel
        self._memory = memory
        self._page = page
        self._chosen = self._due = 0

    def is_due(self, done: int) -> bool:
        """Return whether the step just done is the one to save; called after every step."""
        place = self._channel.place
        self._due = number = self._page.asked(place.round)
        if not number:
            return False
        key = f"handover/{number}"
        if self._channel.said(key):
            return self._channel.hear(key, int) == done
        if place.rank == 0 and self._page.may_choose(number) and self._chosen != number:
            self._chosen = number
            self._channel.say(key, done + 1)
        return False

    def hold(self, done: int) -> None:
        """Report the step as saved and wait until the change stops this process or is cancelled."""
        self._memory.hold(done, handover=self._due)
        while self._page.asked(self._channel.place.round) == self._due:
            time.sleep(_LOOK)
