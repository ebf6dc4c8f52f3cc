"""Replicates snapshots to the next node in the background, one step at a time.

All parts of a step are locked while the step is being sent: nothing overwrites them, so no copy is
torn. Meanwhile newer snapshots go into the other slot of each part, and when the step has arrived
the newest one is sent next; those between are skipped. A worker that needs the memory of the step
being sent waits up to :data:`WAIT_LIMIT`. Then the step is given up without sending the rest, and
more and more snapshots are skipped before the next try: copies that cannot keep up must not slow
training down.

An error is logged once for each cause and stays in the status until a step has been copied again.
Copies that do not keep up are logged once for each destination.
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
from resile.snapshots.peers.copy_progress import CopyProgress, Lag
from resile.snapshots.peers.transfers import Transfer, Transfers
from resile.snapshots.slot_table import SlotTable
from resile.snapshots.slots import Label, PartPlace

__all__ = ["WAIT_LIMIT", "Replicator", "CopyPart", "LockedPart", "skipped_after"]

WAIT_LIMIT = 0.5
"""Maximum seconds that a worker waits for the memory of a step that is being sent."""

RETRY_PAUSE = 1.0
"""Seconds until a step that the other node did not accept is offered again, if there is none newer:
while workers hold for a handover there will be none."""

MOST_SKIPPED = 31
"""Maximum snapshots between two tries when copies cannot keep up: the network may recover."""

Moment = tuple[int, int]
"""A round and a step."""


@dataclass(frozen=True)
class LockedPart:
    """A part in a slot that is locked until it is copied or given up."""

    label: Label
    descriptor: int
    size: int
    version: int
    """How often the part has been saved in this step."""


class CopyPart(Protocol):
    """Copies a part to the server at an address; raises :class:`CheckpointError`."""

    def __call__(self, address: str, part: LockedPart, transfer: Transfer) -> None: ...


def skipped_after(failures: int) -> int:
    """The number of snapshots to skip before the next try, after ``failures`` consecutive steps
    that were given up because a worker needed their memory."""
    return int(min(2 ** min(failures, 10) - 1, MOST_SKIPPED)) if failures else 0


@dataclass
class _Sending:
    """The step that is being sent."""

    moment: Moment
    started: float
    waiting: dict[PartPlace, LockedPart] = field(default_factory=dict)
    current: LockedPart | None = None
    """The part that is being sent."""

    transfer: Transfer | None = None
    """The transfer of that part."""

    wanted: bool = False
    """Whether a worker waits for its memory."""

    @property
    def is_idle(self) -> bool:
        """Whether all complete parts have been sent."""
        return self.current is None and not self.waiting

    def holds(self, place: PartPlace) -> bool:
        """Whether it locks the memory of a part."""
        return place in self.waiting or (
            self.current is not None and self.current.label.place == place
        )


class Replicator:
    """Copies a node's parts to the next node. Thread-safe; ``clock`` is monotonic."""

    def __init__(
        self,
        copy: CopyPart,
        *,
        slots: SlotTable,
        transfers: Transfers,
        news: Callable[[int, str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._copy = copy
        self._slots = slots
        self._transfers = transfers
        self._news = news
        self._clock = clock
        self._next = ""
        self._progress = CopyProgress()
        self._sending: _Sending | None = None
        self._newer: dict[PartPlace, tuple[Label, int]] = {}
        """The newest part of each place that is not of the step being sent, and its version."""
        self._newest: Moment = (-1, -1)
        self._failures = 0
        self._left_out = 0
        """Snapshots to skip before the next try."""
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
        """The address that copies go to; empty for none."""
        return self._next

    @property
    def copied(self) -> int | None:
        """The newest step of which the next node has acknowledged every part."""
        with self._changed:
            return self._progress.copied

    @property
    def pending(self) -> bool:
        """Whether complete parts of this node are being sent or queued."""
        with self._changed:
            sending = self._sending is not None and not self._sending.is_idle
            return sending or bool(self._newer)

    def set_endpoint(self, address: str) -> bool:
        """Set the destination, empty for none; returns whether it changed."""
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
        """Queue a part, one of ``parts`` that this node has of each step."""
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

    def wanted(self, place: PartPlace, step: int) -> None:
        """A worker waits for the memory of a part, to save ``step`` in it."""
        with self._changed:
            sending = self._sending
            if sending is None or not sending.holds(place):
                return
            if sending.transfer is not None:
                sending.transfer.hurry()
            if step <= sending.moment[1]:
                self._give_up()  # it is being saved again: what is being sent is out of date
            elif not sending.wanted:
                sending.wanted = True
                limit = threading.Timer(WAIT_LIMIT, self._waited, args=(sending,))
                limit.daemon = True
                limit.start()

    def workers_hold(self, holding: bool) -> None:
        """Set whether workers hold for a handover: then only their last step counts."""
        with self._changed:
            self._hold_still = holding

    def forget_after(self, step: int) -> None:
        """Training continues from ``step``: later ones are obsolete."""
        with self._changed:
            if self._sending is not None and self._sending.moment[1] > step:
                self._give_up()
            for place, (label, _) in list(self._newer.items()):
                if label.step > step:
                    del self._newer[place]

    def close(self) -> None:
        """Stop sending."""
        with self._changed:
            self._closed = True
            self._give_up()
            self._newer.clear()
            self._changed.notify_all()

    # --- which step -------------------------------------------------------------------------

    def _supersedes(self, moment: Moment, sending: _Sending) -> bool:
        """Whether a step makes the one that is being sent useless: it is the last one before a
        handover, of a later round, or the remaining parts of the current one will never follow."""
        newer = moment > sending.moment
        return newer and (self._hold_still or moment[0] > sending.moment[0] or sending.is_idle)

    def _begin_newest(self) -> None:
        """Send the newest step next, unless it is one of those to skip."""
        if self._left_out > 0 and not self._hold_still:
            self._newer.clear()
        moments = [(label.round, label.step) for label, _ in self._newer.values()]
        if moments:
            self._sending = _Sending(max(moments), self._clock())
            self._hold_newer(self._sending)

    def _hold_newer(self, sending: _Sending) -> None:
        """Lock the complete parts of the step; give it up if one is overwritten already."""
        for place, (label, version) in list(self._newer.items()):
            if (label.round, label.step) > sending.moment:
                continue
            del self._newer[place]
            if (label.round, label.step) < sending.moment:
                continue
            held = self._slots.hold(label)
            if held is None:
                self._give_up()
                return
            self._let_go(sending.waiting.pop(place, None))
            sending.waiting[place] = LockedPart(label, *held, version=version)
        self._changed.notify_all()

    def _waited(self, sending: _Sending) -> None:
        """Give a step up if it is still being sent: a worker has waited long enough for its
        memory."""
        with self._changed:
            if sending is self._sending:
                self._longest = max(self._longest, self._clock() - sending.started)
                self._failures += 1
                self._left_out = skipped_after(self._failures)
                self._give_up()

    def _give_up(self) -> None:
        """Release the step that is being sent; the sending thread notices and continues."""
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
    def _let_go(part: LockedPart | None) -> None:
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
        """Wait for a step with parts to send; None when closed."""
        while not self._closed:
            if self._sending is not None and self._sending.waiting:
                return self._sending
            pause = self._not_before - self._clock()
            if self._sending is None and self._newer and pause <= 0:
                self._begin_newest()
            else:
                self._changed.wait(pause if self._newer and pause > 0 else None)
        return None

    def _copied(self, sending: _Sending, part: LockedPart, transfer: Transfer, address: str) -> str:
        """Copy a part and release it; returns the error, or an empty string."""
        try:
            with self._changed:
                if sending is not self._sending:
                    return "the copy was given up"
                sending.transfer = transfer
                if sending.wanted:
                    transfer.hurry()
            self._copy(address, part, transfer)
        except CheckpointError as error:
            return str(error)
        finally:
            os.close(part.descriptor)
        return ""

    def _sent(self, sending: _Sending, part: LockedPart, trouble: str) -> str:
        """Record the outcome for a part; returns a line for the log, or an empty string."""
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

    def _failed(self, sending: _Sending, part: LockedPart, trouble: str) -> str:
        """Retry the step after a pause, unless there is a newer one by then."""
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
        """The warning that copies do not keep up, the first time; empty otherwise."""
        lag = None if self._said_lag else self._progress.lag(self._clock())
        if lag is None:
            return ""
        self._said_lag = True
        now = self._clock() - self._sending.started if self._sending else 0.0
        self.trouble = self.trouble or lag_text(lag, longest=max(self._longest, now))
        return lag_text(lag, longest=max(self._longest, now))


def lag_text(lag: Lag, *, longest: float) -> str:
    """The warning that copies do not keep up, with its consequence and remedies."""
    return (
        f"copies of snapshots to another node do not keep up: {lag.snapshots} snapshots in "
        f"{lag.seconds:.1f} s were not copied before the next one, and a copy takes "
        f"{longest:.1f} s or more. If this node is lost, training goes back to a checkpoint in "
        "storage. Take snapshots less often (Checkpointer(every=...)), or give the nodes a faster "
        "network"
    )
