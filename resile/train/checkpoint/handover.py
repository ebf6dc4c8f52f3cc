"""Before a planned change all workers save the same step and hold, so that no step is lost.

The agent asks on a page of shared memory. Once every worker of the job has been asked, rank 0 says
in the round's store which step it will be: the next one. It says so before that step's collective,
and the others look after it, so all of them know in time, without a message in ordinary steps.

A handover may be called off, and another may come in the same round: each has a number. Holding
ends when the process does, when the agent calls it off, or when the time written on the page is
over, so that training never stands still because of a master that died.
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

    def __init__(self, agreement: Agreement, memory: SnapshotMemory, page: HandoverPage) -> None:
        self._agreement = agreement
        self._memory = memory
        self._page = page
        self._chosen = self._due = 0

    def is_due(self, done: int) -> bool:
        """Whether the step that was just done is the one to save; looked at after every step."""
        place = self._agreement.place
        self._due = number = self._page.asked(place.round)
        if not number:
            return False
        key = f"handover/{number}"
        if self._agreement.said(key):
            return self._agreement.hear(key, int) == done
        if place.rank == 0 and self._page.may_choose(number) and self._chosen != number:
            self._chosen = number
            self._agreement.say(key, done + 1)
        return False

    def hold(self, done: int) -> None:
        """Say that the step is saved, and wait: the change ends this process, or is called off."""
        self._memory.hold(done, handover=self._due)
        while self._page.asked(self._agreement.place.round) == self._due:
            time.sleep(_LOOK)
