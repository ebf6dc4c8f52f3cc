"""The parts of a step in the nodes' memories, as a restore reads them.

What this node has is opened with one request. Of what others have only the headers come at first,
all of one node's with one request: they say which slices there are, and mostly that is all a worker
has to know of another rank's part. A part's bytes are fetched, whole and once for all workers of
this node, when they are read. What came for the header must then be what comes for the part: one
that changed or went away meanwhile cannot be used, and the step with it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial

from resile.checkpoint.errors import CheckpointError, NoCheckpoint, PartDamaged
from resile.checkpoint.keeping import Label, SnapshotMemory
from resile.checkpoint.keeping import OpenPart as HeldPart
from resile.checkpoint.part import PartHeader, PartLayout, read_header
from resile.train.checkpoint.choosing import Choice, Needed, in_turn, wanted_by
from resile.train.checkpoint.sources import OpenPart

__all__ = ["DistantPart", "MemoryPart", "open_held"]


def open_held(
    memory: SnapshotMemory, choice: Choice, *, node: int, opened: ExitStack
) -> list[OpenPart]:
    """All parts that a worker of ``node`` (a group rank) needs to look at; ``opened`` closes them.

    Raises KeeperError or NoCheckpoint if some cannot be had, PartDamaged if one is another than it
    should be.
    """
    wanted = wanted_by(node, choice)
    here = memory.open_all([one.label for one in wanted if node in one.holders])
    for held in here:
        opened.enter_context(held)
    elsewhere = _Elsewhere(memory, choice.addresses, node=node, opened=opened)
    return [
        *(MemoryPart(held) for held in here),
        *elsewhere.parts(one for one in wanted if node not in one.holders),
    ]


class MemoryPart:
    """A part in this node's memory."""

    def __init__(self, held: HeldPart) -> None:
        self.header, self.layout = _described(held.buffer, held.label)
        _check_size(self.layout, held)
        self._buffer = held.buffer

    def read(self, begin: int, end: int) -> memoryview:
        """Without a copy."""
        return self._buffer[begin:end]


class DistantPart:
    """A part in another node's memory, of which the header is known; ``fetch`` gets the rest."""

    def __init__(self, label: Label, header: bytes, *, fetch: Callable[[], HeldPart]) -> None:
        self.header, self.layout = _described(memoryview(header), label)
        self._fetch = fetch
        self._buffer: memoryview | None = None

    def bring(self) -> None:
        """Have its bytes in this node's memory."""
        self._brought()

    def read(self, begin: int, end: int) -> memoryview:
        """Without a copy, once it was brought."""
        return self._brought()[begin:end]

    def _brought(self) -> memoryview:
        if self._buffer is None:
            held = self._fetch()
            if held.buffer[: len(self.layout.header)] != self.layout.header:
                raise PartDamaged(f"{held.label.name} is another than it was a moment ago")
            _check_size(self.layout, held)
            self._buffer = held.buffer
        return self._buffer


class _Elsewhere:
    """What other nodes have."""

    def __init__(
        self, memory: SnapshotMemory, addresses: Sequence[str], *, node: int, opened: ExitStack
    ) -> None:
        self._memory = memory
        self._addresses = addresses
        self._node = node
        self._opened = opened

    def parts(self, wanted: Iterable[Needed]) -> list[DistantPart]:
        """With their headers, each from the first of its holders that has it."""
        holders = {one.label: self._in_turn(one.holders) for one in wanted}
        headers = self._headers(holders)
        return [
            DistantPart(label, headers[label], fetch=partial(self._fetch, label, turns))
            for label, turns in holders.items()
        ]

    def _in_turn(self, holders: Iterable[int]) -> list[int]:
        return in_turn(holders, node=self._node, nodes=len(self._addresses))

    def _headers(self, holders: Mapping[Label, Sequence[int]]) -> dict[Label, bytes]:
        """Whoever is first in turn for a part is asked first; for what that one lacks the second,
        and so on."""
        found: dict[Label, bytes] = {}
        reasons: dict[Label, list[str]] = defaultdict(list)
        turn = 0
        while lacking := [label for label in holders if label not in found]:
            asked: dict[int, list[Label]] = defaultdict(list)
            for label in lacking:
                if turn == len(holders[label]):
                    raise _not_to_be_had(label, reasons[label])
                asked[holders[label][turn]].append(label)
            for holder in self._in_turn(asked):
                answers = self._ask(self._addresses[holder], asked[holder])
                for label, answer in zip(asked[holder], answers, strict=True):
                    if isinstance(answer, bytes):
                        found[label] = answer
                    else:
                        reasons[label].append(answer)
            turn += 1
        return found

    def _ask(self, address: str, labels: Sequence[Label]) -> list[bytes | str]:
        """The header of each part, or why it cannot be had."""
        try:
            headers = self._memory.headers(address, labels)
        except CheckpointError as error:
            return [str(error)] * len(labels)
        return [header or f"the keeper at {address} does not have it" for header in headers]

    def _fetch(self, label: Label, holders: Sequence[int]) -> HeldPart:
        reasons = []
        for holder in holders:
            try:
                return self._opened.enter_context(
                    self._memory.fetch(self._addresses[holder], label)
                )
            except CheckpointError as error:
                reasons.append(str(error))
        raise _not_to_be_had(label, reasons)


def _not_to_be_had(label: Label, reasons: Sequence[str]) -> NoCheckpoint:
    return NoCheckpoint(f"{label.name} cannot be had: {'; '.join(reasons)}")


def _described(data: memoryview, label: Label) -> tuple[PartHeader, PartLayout]:
    """What a part says of itself, which must be what it was asked for as."""
    header, layout = read_header(data, source=label.name)
    place = label.place
    said = (header.kind, header.index, header.count, header.step, header.world)
    if said != (place.kind, place.index, place.count, label.step, label.world):
        raise PartDamaged(f"{label.name} says that it is step {header.step} of {header.name}")
    return header, layout


def _check_size(layout: PartLayout, held: HeldPart) -> None:
    if layout.size > held.size:
        raise PartDamaged(
            f"{held.label.name} has {held.size} bytes instead of the {layout.size} it describes"
        )
