"""What the membership has decided since it was last asked: records, messages, and the story.

Collected here and carried out by the service, in one order: records first, then messages.
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
"""Older ones are forgotten: enough for a person, and a store that does not grow for ever."""


class Address(NamedTuple):
    """A node: its id is unique in its group only."""

    group: str
    node: int


@dataclass
class Instructions:
    """Keep these records first (None: forget it), then send these messages, in this order."""

    records: dict[str, msgspec.Struct | None] = field(default_factory=dict)
    sends: list[tuple[Address, FromMaster]] = field(default_factory=list)


class Journal:
    """Collects instructions; remembers the events people may ask about. All groups of a job have
    one: what happens to them is one story, and what is decided at one moment is one commit."""

    def __init__(self, events: tuple[EventRecord, ...] = (), *, wall_offset: float = 0.0) -> None:
        """``wall_offset`` turns the clock of ``now`` into Unix time."""
        self.events = deque(events)
        self.wall_offset = wall_offset
        self._pending = Instructions()

    def take(self) -> Instructions:
        """All instructions since the last call."""
        pending, self._pending = self._pending, Instructions()
        return pending

    @property
    def last_seq(self) -> int:
        """The number of the latest event; 0 for none."""
        return self.events[-1].seq if self.events else 0

    def since(self, seq: int) -> list[EventRecord]:
        """The events after ``seq``, oldest first."""
        fresh = list(takewhile(lambda event: event.seq > seq, reversed(self.events)))
        return fresh[::-1]

    def keep(self, key: str, record: msgspec.Struct) -> None:
        """Remember a record over this master's death."""
        self._pending.records[key] = record

    def forget(self, key: str) -> None:
        """A record has no meaning any more."""
        self._pending.records[key] = None

    def send(self, to: Address, body: FromMaster) -> None:
        """Tell a node something."""
        self._pending.sends.append((to, body))

    def wall(self, now: float) -> float:
        """``now`` as Unix time."""
        return now + self.wall_offset

    def tell(
        self,
        kind: EventKind,
        text: str,
        now: float,
        *,
        round: int,
        node: int | None = None,
        group: str = MAIN,
    ) -> None:
        """Note what happened, for people."""
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
        """As :meth:`tell`, for somebody of another version, who may have other kinds."""
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
        self.keep(event_key(seq), event)
        while len(self.events) > KEPT_EVENTS:
            self.forget(event_key(self.events.popleft().seq))
