"""Decisions of all groups that are not carried out yet: records, messages and events.

They are collected here and carried out by the service in one order: records first, then messages.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import takewhile
from typing import NamedTuple

import msgspec

from resile.job.events import EventKind
from resile.master.records import MAIN, EventRecord, event_key
from resile.wire.messages import FromMaster

KEPT_EVENTS = 1000
"""Older ones are deleted: enough for a person, and the store does not grow without limit."""


class Address(NamedTuple):
    """The address of a node: ids are unique within a group only."""

    group: str
    node: int


@dataclass
class EffectBatch:
    """Records to write first (None: delete it), then messages to send, in this order."""

    records: dict[str, msgspec.Struct | None] = field(default_factory=dict)
    sends: list[tuple[Address, FromMaster]] = field(default_factory=list)


class Effects:
    """Collects effects, and has the latest events. All groups of a job share one: they have
    one list of events, and decisions of one moment are one commit."""

    def __init__(self, events: tuple[EventRecord, ...] = (), *, wall_offset: float = 0.0) -> None:
        """``wall_offset`` turns the clock of ``now`` into Unix time."""
        self.events = deque(events)
        self.wall_offset = wall_offset
        self._pending = EffectBatch()

    def take(self) -> EffectBatch:
        """Return all effects since the last call."""
        pending, self._pending = self._pending, EffectBatch()
        return pending

    @property
    def last_seq(self) -> int:
        """The number of the latest event; 0 for none."""
        return self.events[-1].seq if self.events else 0

    def since(self, seq: int) -> list[EventRecord]:
        """Return the events after ``seq``, oldest first."""
        fresh = list(takewhile(lambda event: event.seq > seq, reversed(self.events)))
        return fresh[::-1]

    def put(self, key: str, record: msgspec.Struct) -> None:
        """Write a record to the store."""
        self._pending.records[key] = record

    def delete(self, key: str) -> None:
        """Delete a record from the store."""
        self._pending.records[key] = None

    def send(self, to: Address, body: FromMaster) -> None:
        """Send a message to a node."""
        self._pending.sends.append((to, body))

    def wall(self, now: float) -> float:
        """Return ``now`` as Unix time."""
        return now + self.wall_offset

    def record_event(
        self,
        kind: EventKind,
        text: str,
        now: float,
        *,
        round: int,
        node: int | None = None,
        group: str = MAIN,
    ) -> None:
        """Publish an event."""
        self.write(kind.value, text, now, round=round, node=node, group=group)

    def write(
        self,
        kind: str,
        text: str,
        now: float,
        *,
        round: int,
        node: int | None = None,
        group: str = MAIN,
    ) -> None:
        """As :meth:`record_event`, for events of another version, which may have other kinds."""
        seq = self.last_seq + 1
        event = EventRecord(
            seq=seq,
            time=self.wall(now),
            kind=kind,
            text=f"{group}: {text}" if group else text,
            node=node,
            round=round,
            group=group,
        )
        self.events.append(event)
        self.put(event_key(seq), event)
        while len(self.events) > KEPT_EVENTS:
            self.delete(event_key(self.events.popleft().seq))
