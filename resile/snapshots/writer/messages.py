"""Orders to the writer process, and its answers."""

from __future__ import annotations

from typing import Any

import msgspec

from resile.checkpoint.fence import RoundClaim
from resile.group_name import MAIN_GROUP

__all__ = [
    "Failed",
    "Finished",
    "CollapsePages",
    "PagesCollapsed",
    "Moved",
    "Numbered",
    "Order",
    "WriteProgress",
    "CheckpointPublication",
    "Published",
    "Receive",
    "Send",
    "StopTransfer",
    "Stopped",
    "Target",
    "WriterAnswer",
    "Write",
    "PartsWritten",
]


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The destination and identity of a checkpoint."""

    url: str
    step: int
    attempt: str
    """The name of this try to write it: the same for all its writers, and unique."""

    group: str = MAIN_GROUP
    """The group it belongs to; also in the header of each part."""

    options: dict[str, Any] = {}
    """Options for the storage's fsspec driver."""

    retry_seconds: float = 300.0
    """Timeout in seconds for retries of failing storage, and for missing parts."""


class CheckpointPublication(msgspec.Struct, frozen=True, kw_only=True):
    """Instructions for the one writer that publishes the checkpoint and prunes old ones."""

    world: int
    replicas: int
    job: str = ""
    round: int = 0
    keep: int = 0
    """The number of newest checkpoints to keep; 0 for all."""

    claim: RoundClaim | None = None
    """The round's claim to the folder."""


class Write(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Write the parts in slots; carries the slots' descriptors, which hold their locks.

    With a publication the process then waits for the parts of all other writers and publishes.
    """

    target: Target
    lengths: tuple[int, ...]
    publication: CheckpointPublication | None = None


class Send(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Send a slot's bytes; carries the descriptors of slot and connection."""

    length: int


class Receive(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Fill a slot; carries the descriptors of slot and connection."""

    length: int


class CollapsePages(msgspec.Struct, frozen=True, kw_only=True, tag="Gather"):
    """Collapse the pages of slots into large ones; carries the slots' descriptors."""


class StopTransfer(msgspec.Struct, frozen=True, tag="Stop"):
    """Stop the transfer of this number after the current piece; answered with :class:`Stopped`,
    unless it is done by then."""


Order = Write | Send | Receive | CollapsePages


class Numbered(msgspec.Struct, frozen=True):
    """An order with its number."""

    number: int
    order: Order | StopTransfer


class PartsWritten(msgspec.Struct, frozen=True, kw_only=True, tag="Written"):
    """The parts are on storage; their slots are released."""

    size: int
    seconds: float


class Published(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A checkpoint exists."""

    step: int
    size: int
    seconds: float
    """Since the order, including the wait for other nodes."""


class Moved(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """All bytes were sent to or received from another node."""


class Stopped(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The transfer was stopped after ``moved`` bytes from the start of the part."""

    moved: int


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The order failed, with the reason."""

    reason: str


class PagesCollapsed(msgspec.Struct, frozen=True, kw_only=True, tag="Gathered"):
    """The pages were collapsed as far as possible."""


Finished = PartsWritten | Published | Moved | Stopped | PagesCollapsed | Failed


class WriteProgress(msgspec.Struct, frozen=True, kw_only=True, tag="Progress"):
    """A message while an order is in progress: storage fails and is retried."""

    text: str


class WriterAnswer(msgspec.Struct, frozen=True):
    """An answer of the writer process to an order."""

    number: int
    word: Finished | WriteProgress
