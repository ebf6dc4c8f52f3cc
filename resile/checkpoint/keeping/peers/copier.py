"""Sends copies to the next node in the background, one step after the other.

All parts of a step are held while the step is being sent: nothing overwrites them, so no copy is
torn. Meanwhile newer snapshots go into the other buffer of each part, and when the step has arrived
the newest one is next; those between are skipped. A worker that needs the memory of the step that
is being sent waits for a moment. Then the step is given up, without sending the rest of it, and the
next tries are made at growing distances: training does not pay for copies that cannot keep up.

Trouble is told once for each cause and stays in the status until a step has been copied again. That
copies do not keep up is told once for each node that they go to.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from resile.checkpoint.errors import CheckpointError
from resile.checkpoint.keeping.holdings import Holdings
from resile.checkpoint.keeping.peers.copy_progress import CopyProgress, Lag
from resile.checkpoint.keeping.peers.transfers import Transfer, Transfers
from resile.checkpoint.slots import Label, Place

__all__ = ["WAIT_LIMIT", "Copier", "CopyPart", "Part", "skipped_after"]

WAIT_LIMIT = 0.5
"""Seconds that a worker waits for the memory of a step that is being sent."""

RETRY_PAUSE = 1.0
"""Seconds until a step that another node did not take is offered again, if there is none newer:
while workers hold still for a planned change none will come."""

MOST_SKIPPED = 31
"""Snapshots between two tries when copies cannot keep up: a network may become faster again."""

Moment = tuple[int, int]
"""A round and a step."""


@dataclass(frozen=True)
class Part:
    """A part in a slot that is held until it is copied or given up."""

    label: Label
    descriptor: int
    size: int
    version: int
    """How often it has been saved: the first time, or again."""


class CopyPart(Protocol):
    """Leaves a part at the keeper at an address; raises :class:`CheckpointError` if it cannot."""

    def __call__(self, address: str, part: Part, transfer: Transfer) -> None: ...


def skipped_after(failures: int) -> int:
    """How many snapshots to leave out before the next try, after so many steps in a row that had to
    be given up because a worker needed their memory."""
    return int(min(2 ** min(failures, 10) - 1, MOST_SKIPPED)) if failures else 0


@dataclass
class _Sending:
    """The step that is being sent."""

    moment: Moment
    started: float
    waiting: dict[Place, Part] = field(default_factory=dict)
    current: Part | None = None
    """The part that is on its way."""

    transfer: Transfer | None = None
    """Of that part."""

    wanted: bool = False
    """Whether a worker waits for its memory."""

    @property
    def is_idle(self) -> bool:
        """Whether all parts that are whole have been sent."""
        return self.current is None and not self.waiting

    def holds(self, place: Place) -> bool:
        """Whether the memory of a part is held for it."""
        return place in self.waiting or (
            self.current is not None and self.current.label.place == place
        )


class Copier:
    """Copies one node's parts. Thread-safe; ``clock`` is monotonic."""

    def __init__(
        self,
        copy: CopyPart,
        *,
        holdings: Holdings,
        transfers: Transfers,
        news: Callable[[int, str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._copy = copy
        self._holdings = holdings
        self._transfers = transfers
        self._news = news
        self._clock = clock
        self._next = ""
        self._progress = CopyProgress()
        self._sending: _Sending | None = None
        self._newer: dict[Place, tuple[Label, int]] = {}
        """The newest part of each place that is not of the step being sent, and its version."""
        self._newest: Moment = (-1, -1)
        self._failures = 0
        self._left_out = 0
        """Snapshots that are not copied before the next try."""
        self._not_before = 0.0
        self._longest = 0.0
        self._said_lag = False
        self._hold_still = False
        self._closed = False
        self._started = False
        self._changed = threading.Condition()
        self.trouble = ""

    @property
    def next(self) -> str:
        """Where copies go."""
        return self._next

    @property
    def copied(self) -> int | None:
        """The newest step of which the next node acknowledged every part."""
        with self._changed:
            return self._progress.copied

    @property
    def pending(self) -> bool:
        """Whether parts that are whole on this node are on their way, or wait for their turn."""
        with self._changed:
            sending = self._sending is not None and not self._sending.is_idle
            return sending or bool(self._newer)

    def turn_to(self, address: str) -> bool:
        """Send there from now on, empty for nowhere; whether that is new."""
        with self._changed:
            if address == self._next:
                return False
            self._give_up()
            self._next = address
            self._newer.clear()
            self._progress = CopyProgress()
            self._failures, self._left_out, self._said_lag, self.trouble = 0, 0, False, ""
            return True

    def send(self, label: Label, *, parts: int) -> None:
        """Copy a part, one of ``parts`` that this node has of each step, when its turn comes."""
        with self._changed:
            if not self._next or self._closed:
                return
            moment = (label.round, label.step)
            version = self._progress.saved(label, parts=parts, now=self._clock())
            self._newer[label.place] = label, version
            if moment > self._newest:
                self._newest, self._left_out = moment, max(0, self._left_out - 1)
            if self._sending is not None and self._supersedes(moment, self._sending):
                self._give_up()
            if self._sending is None:
                self._begin_newest()
            else:
                self._hold_newer(self._sending)
            lag = self._unsaid_lag()
            self._start()
        if lag:
            self._news(logging.WARNING, lag)

    def wanted(self, place: Place, step: int) -> None:
        """A worker waits for the memory of a part, to save ``step`` there."""
        with self._changed:
            sending = self._sending
            if sending is None or not sending.holds(place):
                return
            if sending.transfer is not None:
                sending.transfer.hurry()
            if step <= sending.moment[1]:
                self._give_up()  # it is saved once more: what is being sent is out of date
            elif not sending.wanted:
                sending.wanted = True
                limit = threading.Timer(WAIT_LIMIT, self._waited, args=(sending,))
                limit.daemon = True
                limit.start()

    def workers_hold(self, holding: bool) -> None:
        """Whether workers hold still for a planned change: then only their last step counts."""
        with self._changed:
            self._hold_still = holding

    def forget_after(self, step: int) -> None:
        """Training goes on from ``step``: later ones belong to a life that is over."""
        with self._changed:
            if self._sending is not None and self._sending.moment[1] > step:
                self._give_up()
            for place, (label, _) in list(self._newer.items()):
                if label.step > step:
                    del self._newer[place]

    def close(self) -> None:
        """Send no more."""
        with self._changed:
            self._closed = True
            self._give_up()
            self._newer.clear()
            self._changed.notify_all()

    # --- which step -------------------------------------------------------------------------

    def _supersedes(self, moment: Moment, sending: _Sending) -> bool:
        """Whether a step makes the one that is being sent useless: it is the last one before a
        planned change, of a later round, or the rest of what is being sent will never come."""
        newer = moment > sending.moment
        return newer and (self._hold_still or moment[0] > sending.moment[0] or sending.is_idle)

    def _begin_newest(self) -> None:
        """Send the newest step next, unless it is one of those that are left out."""
        if self._left_out > 0 and not self._hold_still:
            self._newer.clear()
        moments = [(label.round, label.step) for label, _ in self._newer.values()]
        if moments:
            self._sending = _Sending(max(moments), self._clock())
            self._hold_newer(self._sending)

    def _hold_newer(self, sending: _Sending) -> None:
        """Hold those parts of the step that are whole; give it up if one is overwritten already."""
        for place, (label, version) in list(self._newer.items()):
            if (label.round, label.step) > sending.moment:
                continue
            del self._newer[place]
            if (label.round, label.step) < sending.moment:
                continue
            held = self._holdings.hold(label)
            if held is None:
                self._give_up()
                return
            self._let_go(sending.waiting.pop(place, None))
            sending.waiting[place] = Part(label, *held, version=version)
        self._changed.notify_all()

    def _waited(self, sending: _Sending) -> None:
        """A worker has waited long enough for the memory of a step, if that is still being sent."""
        with self._changed:
            if sending is self._sending:
                self._longest = max(self._longest, self._clock() - sending.started)
                self._failures += 1
                self._left_out = skipped_after(self._failures)
                self._give_up()

    def _give_up(self) -> None:
        """Let go of the step that is being sent; the thread that sends sees it and goes on."""
        sending, self._sending = self._sending, None
        if sending is None:
            return
        for part in sending.waiting.values():
            self._let_go(part)
        sending.waiting.clear()
        if sending.transfer is not None:
            sending.transfer.give_up()
        self._changed.notify_all()

    @staticmethod
    def _let_go(part: Part | None) -> None:
        if part is not None:
            os.close(part.descriptor)

    # --- sending ----------------------------------------------------------------------------

    def _start(self) -> None:
        if not self._started:
            self._started = True
            threading.Thread(target=self._run, name="resile-copier", daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._changed:
                sending = self._next_to_send()
                if sending is None:
                    return
                part = sending.current = sending.waiting.pop(next(iter(sending.waiting)))
                address = self._next
            with self._transfers.begin(part.label) as transfer:
                trouble = self._copied(sending, part, transfer, address)
            with self._changed:
                sending.current = sending.transfer = None
                news = self._sent(sending, part, trouble)
            if news:
                self._news(logging.WARNING, news)

    def _next_to_send(self) -> _Sending | None:
        """Wait for a step with parts to send; None at the end."""
        while not self._closed:
            if self._sending is not None and self._sending.waiting:
                return self._sending
            pause = self._not_before - self._clock()
            if self._sending is None and self._newer and pause <= 0:
                self._begin_newest()
            else:
                self._changed.wait(pause if self._newer and pause > 0 else None)
        return None

    def _copied(self, sending: _Sending, part: Part, transfer: Transfer, address: str) -> str:
        """Copy a part and let it go; returns what went wrong."""
        try:
            with self._changed:
                if sending is not self._sending:
                    return "it was given up"
                sending.transfer = transfer
                if sending.wanted:
                    transfer.hurry()
            self._copy(address, part, transfer)
        except CheckpointError as error:
            return str(error)
        finally:
            os.close(part.descriptor)
        return ""

    def _sent(self, sending: _Sending, part: Part, trouble: str) -> str:
        """Note how it went with a part; returns what is worth telling."""
        if sending is not self._sending:
            return ""
        if trouble:
            return self._failed(sending, part, trouble)
        self._progress.acknowledged(part.label, version=part.version)
        if self._progress.is_copied(sending.moment):
            self.trouble, self._failures = "", 0
            self._longest = self._clock() - sending.started
            self._sending = None
            self._begin_newest()
        return ""

    def _failed(self, sending: _Sending, part: Part, trouble: str) -> str:
        """Offer the step again after a pause, unless there is a newer one by then."""
        for again in (part, *sending.waiting.values()):
            self._newer.setdefault(again.label.place, (again.label, again.version))
        self._give_up()
        self._not_before = self._clock() + RETRY_PAUSE
        known, self.trouble = self.trouble, trouble
        if trouble == known:
            return ""
        return f"{part.label.name} was not copied to another node: {trouble}"

    # --- falling behind ---------------------------------------------------------------------

    def _unsaid_lag(self) -> str:
        """What is to be said of copies that do not keep up, the first time."""
        lag = None if self._said_lag else self._progress.lag(self._clock())
        if lag is None:
            return ""
        self._said_lag = True
        now = self._clock() - self._sending.started if self._sending else 0.0
        self.trouble = self.trouble or lag_text(lag, longest=max(self._longest, now))
        return lag_text(lag, longest=max(self._longest, now))


def lag_text(lag: Lag, *, longest: float) -> str:
    """For people: that copies do not keep up, what that means and what to do."""
    return (
        f"copies of snapshots to another node do not keep up: {lag.snapshots} snapshots in "
        f"{lag.seconds:.1f} s were not copied before the next one, and a copy takes "
        f"{longest:.1f} s or more. If this node is lost, training goes back to a checkpoint in "
        "storage. Take snapshots less often (Checkpointer(every=...)), or give the nodes a faster "
        "network"
    )
