"""Requests of workers to the snapshot server, and its answers.

One packet each way, in turn. Some answers carry file descriptors, as noted.
"""

from __future__ import annotations

import msgspec

from resile.checkpoint.part import PartKind
from resile.group_name import MAIN_GROUP
from resile.snapshots.slots import Label, PartPlace
from resile.snapshots.writer.messages import CheckpointPublication, Target

__all__ = [
    "AT_ONCE",
    "Accepted",
    "Answer",
    "Busy",
    "Completed",
    "Done",
    "Fetch",
    "FetchHeaders",
    "Headers",
    "HeldPartInfo",
    "WorkerHello",
    "HoldingStep",
    "Inventory",
    "List",
    "NotEnoughRoom",
    "Open",
    "Opened",
    "Persist",
    "CheckpointPublication",
    "RequestRefused",
    "Request",
    "Reserve",
    "Reserved",
    "TrainingResumed",
    "Status",
    "StatusWanted",
    "Target",
    "Waiting",
    "Watched",
    "WorkerWelcome",
]

AT_ONCE = 200
"""Maximum parts in one request: their descriptors come in one packet, and the kernel allows 253."""


class HeldPartInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A complete part in a server's memory."""

    label: Label
    size: int
    is_copy: bool = False
    """It came from another node."""


# --- requests -----------------------------------------------------------------------------------


class WorkerHello(msgspec.Struct, frozen=True, kw_only=True, tag="Hello"):
    """Identifies the worker; the first request of a connection."""

    rank: int
    local_rank: int
    world: int
    nproc: int
    """The number of workers on this node."""

    round: int = 0
    group: str = MAIN_GROUP

    def place(self, kind: PartKind) -> PartPlace:
        """The place of this worker's part of a kind."""
        if kind is PartKind.RANK:
            return PartPlace(kind=kind, index=self.rank, count=self.world, group=self.group)
        return PartPlace(kind=kind, index=self.local_rank, count=self.nproc, group=self.group)


class Reserve(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Reserve memory for this worker's part of a kind: two slots of ``size`` bytes."""

    kind: PartKind
    size: int


class Waiting(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The worker waits for the locked memory of its part of ``step``: a copy in progress should be
    hurried."""

    kind: PartKind
    step: int


class List(msgspec.Struct, frozen=True, tag=True):
    """List the parts of this worker's group held here."""


class Open(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Open parts for reading; all of them or none."""

    labels: tuple[Label, ...]


class Completed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """These parts of this worker are complete; they may be copied to the next node."""

    labels: tuple[Label, ...]


class Persist(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Write this worker's parts of the target's step to storage."""

    target: Target
    kinds: tuple[PartKind, ...]
    publication: CheckpointPublication | None = None
    """Set for the one worker whose writer publishes."""


class StatusWanted(msgspec.Struct, frozen=True, tag=True):
    """Request the :class:`Status`."""


class Fetch(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Fetch a part from the server at ``address`` into this node's memory, and open it."""

    address: str
    label: Label


class Await(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Wait until ``until`` bytes of a part that is being received are here."""

    arrival: int
    until: int


class FetchHeaders(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Get the headers of parts held by the server at ``address``."""

    address: str
    labels: tuple[Label, ...]


class TrainingResumed(msgspec.Struct, frozen=True, kw_only=True, tag="Resumed"):
    """Training continues from ``step``: later snapshots are obsolete. From now on this worker
    checks after every step whether it is asked to save for a handover."""

    step: int
    next: str | None = None
    """The address (host:port) of the server that this node's parts are copied to; empty for no
    copies. None from all but one worker of the node."""


class HoldingStep(msgspec.Struct, frozen=True, kw_only=True, tag="Holding"):
    """This worker saved a step for a handover, and holds."""

    step: int
    handover: int


Request = (
    HoldingStep
    | WorkerHello
    | Reserve
    | List
    | Open
    | Completed
    | Persist
    | StatusWanted
    | Fetch
    | Await
    | FetchHeaders
    | TrainingResumed
    | Waiting
)


# --- answers ------------------------------------------------------------------------------------


class WorkerWelcome(msgspec.Struct, frozen=True, kw_only=True, tag="Welcome"):
    """The server accepts the worker."""

    address: str = ""
    """The address at which other nodes' servers reach it; empty if they cannot."""


class Reserved(msgspec.Struct, frozen=True, tag=True):
    """Memory was reserved; carries the descriptors of both slots."""


class NotEnoughRoom(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The snapshot does not fit into memory."""

    reason: str


class Inventory(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """All complete parts of the group."""

    parts: tuple[HeldPartInfo, ...]


class Opened(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Carries a descriptor for each part, which locks its slot until it is closed."""

    sizes: tuple[int, ...]


class Arriving(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Carries a descriptor of the memory that the part is being received into. Nothing else is
    written there until training continues."""

    arrival: int
    size: int


class Come(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The number of bytes that are here."""

    count: int


class Headers(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Carries one descriptor: memory with the headers, one after the other."""

    lengths: tuple[int, ...]
    """Length of each header; 0 for a part that is not held there."""


class Watched(msgspec.Struct, frozen=True, tag=True):
    """Carries one descriptor, of the handover page."""


class Done(msgspec.Struct, frozen=True, tag=True):
    """The request was carried out."""


class Accepted(msgspec.Struct, frozen=True, tag=True):
    """The parts will be written."""


class Busy(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """An earlier step of the same part is still being written; retry later."""

    step: int


class Status(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The status of writes and copies."""

    writing: tuple[int, ...] = ()
    """Steps that this node has not finished writing or publishing."""

    written: int | None = None
    """The latest step of which this node's parts are on storage."""

    committed: int | None = None
    """The latest step that a writer of this node has published."""

    trouble: str = ""
    """The last storage error; empty once a later write succeeded."""

    troubled_step: int | None = None
    """The step that the error belongs to."""

    copied: int | None = None
    """The newest step of which the next node has acknowledged copies of all this node's parts."""

    copy_trouble: str = ""

    @property
    def trouble_line(self) -> str:
        """The error with its step, for messages; empty if there is none."""
        return f"step {self.troubled_step}: {self.trouble}" if self.trouble else ""


class RequestRefused(msgspec.Struct, frozen=True, kw_only=True, tag="Refused"):
    """The request was refused, with the reason."""

    reason: str


Answer = (
    WorkerWelcome
    | Reserved
    | NotEnoughRoom
    | Inventory
    | Opened
    | Arriving
    | Come
    | Headers
    | Watched
    | Done
    | Accepted
    | Busy
    | Status
    | RequestRefused
)
