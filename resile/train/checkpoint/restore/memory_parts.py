"""Readers for the parts of a step in the nodes' memories.

The parts of this node are opened with one request. Of other nodes' parts only the headers are
fetched at first, with one request per node: they list the slices, and mostly that is all a worker
needs of another rank's part. A part's bytes are fetched when they are needed, whole and once for
all workers of this node, and copied while they arrive. The part must then match the header that was
fetched before: if it changed or disappeared meanwhile, the step cannot be used. If a holder is lost
in the middle, the next one is asked: the same part has the same bytes everywhere.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial

from resile.checkpoint.errors import CheckpointError, NoCheckpoint, NoMemoryForSnapshot, PartDamaged
from resile.checkpoint.part import PartHeader, PartLayout, ReadablePart, read_header
from resile.group_name import describe_group
from resile.snapshots.client import SnapshotClient
from resile.snapshots.errors import SnapshotError
from resile.snapshots.held_part import HeldPart
from resile.snapshots.slots import Label
from resile.train.checkpoint.restore.select_source import (
    Choice,
    NeededPart,
    holder_order,
    parts_for_node,
)

__all__ = ["PeerPart", "MemoryPart", "open_memory_parts"]


def open_memory_parts(
    memory: SnapshotClient, choice: Choice, *, node: int, opened: ExitStack
) -> list[ReadablePart]:
    """Open all parts that a worker of ``node`` (a group rank) needs; ``opened`` closes them.

    Raises SnapshotError or NoCheckpoint if some are not available, PartDamaged if one does not
    match its label.
    """
    wanted = parts_for_node(node, choice)
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
        """Return the bytes without a copy."""
        return self._buffer[begin:end]


class PeerPart:
    """A part in another node's memory whose header is known. ``attempts``: each starts the transfer
    of the rest from another holder."""

    def __init__(
        self, label: Label, header: bytes, *, attempts: Iterable[Callable[[], HeldPart]]
    ) -> None:
        self.header, self.layout = _described(memoryview(header), label)
        self._label = label
        self._attempts = iter(attempts)
        self._failures: list[str] = []
        self._coming: HeldPart | None = None

    def prefetch(self) -> None:
        """Start the transfer of its bytes into this node's memory."""
        self._with(len(self.layout.header))

    def read(self, begin: int, end: int) -> memoryview:
        """Return the bytes without a copy; waits until they have arrived."""
        return self._with(end)[begin:end]

    def _with(self, end: int) -> memoryview:
        """The part's buffer, once the bytes up to ``end`` have arrived."""
        while True:
            try:
                self._coming = self._coming or self._next()
                self._coming.need(end)
                return self._coming.buffer
            except (SnapshotError, NoMemoryForSnapshot) as error:
                self._failures.append(str(error))
                self._coming = None

    def _next(self) -> HeldPart:
        attempt = next(self._attempts, None)
        if attempt is None:
            raise _not_to_be_had(self._label, self._failures)
        coming = attempt()
        coming.need(len(self.layout.header))
        if coming.buffer[: len(self.layout.header)] != self.layout.header:
            raise PartDamaged(f"{coming.label.name} changed while it was read")
        _check_size(self.layout, coming)
        return coming


class _Elsewhere:
    """The parts on other nodes."""

    def __init__(
        self, memory: SnapshotClient, addresses: Sequence[str], *, node: int, opened: ExitStack
    ) -> None:
        self._memory = memory
        self._addresses = addresses
        self._node = node
        self._opened = opened

    def parts(self, wanted: Iterable[NeededPart]) -> list[PeerPart]:
        """Return the parts with their headers, each from the first of its holders that has it."""
        holders = {one.label: self._holder_order(one.holders) for one in wanted}
        headers = self._headers(holders)
        return [
            PeerPart(
                label,
                headers[label],
                attempts=[partial(self._fetch, label, holder) for holder in turns],
            )
            for label, turns in holders.items()
        ]

    def _holder_order(self, holders: Iterable[int]) -> list[int]:
        return holder_order(holders, node=self._node, nodes=len(self._addresses))

    def _headers(self, holders: Mapping[Label, Sequence[int]]) -> dict[Label, bytes]:
        """Fetch headers from the first holder of each part; for those it lacks from the second,
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
            for holder in self._holder_order(asked):
                answers = self._ask(self._addresses[holder], asked[holder])
                for label, answer in zip(asked[holder], answers, strict=True):
                    if isinstance(answer, bytes):
                        found[label] = answer
                    else:
                        reasons[label].append(answer)
            turn += 1
        return found

    def _ask(self, address: str, labels: Sequence[Label]) -> list[bytes | str]:
        """The header of each part, or why it is not available."""
        try:
            headers = self._memory.headers(address, labels)
        except CheckpointError as error:
            return [str(error)] * len(labels)
        return [header or f"snapshot server at {address} does not have it" for header in headers]

    def _fetch(self, label: Label, holder: int) -> HeldPart:
        coming = self._memory.fetch(self._addresses[holder], label)
        return self._opened.enter_context(coming)


def _not_to_be_had(label: Label, reasons: Sequence[str]) -> NoCheckpoint:
    return NoCheckpoint(f"{label.name} is not available: {'; '.join(reasons)}")


def _described(data: memoryview, label: Label) -> tuple[PartHeader, PartLayout]:
    """Read a part's header and check it against the requested label."""
    header, layout = read_header(data, source=label.name)
    place = label.place
    found = (header.group, header.kind, header.index, header.count, header.step, header.world)
    expected = (place.group, place.kind, place.index, place.count, label.step, label.world)
    if found != expected:
        whose = f" of {describe_group(header.group)}" if header.group != place.group else ""
        raise PartDamaged(
            f"{label.name} says that it is step {header.step} of {header.name}{whose}"
        )
    return header, layout


def _check_size(layout: PartLayout, held: HeldPart) -> None:
    if layout.size > held.size:
        raise PartDamaged(
            f"{held.label.name} has {held.size} bytes instead of the {layout.size} it describes"
        )
