"""What a keeper orders of the carrier, and what it hears back."""

from __future__ import annotations

from typing import Any

import msgspec

from resile.checkpoint.fence import Claim
from resile.groupname import MAIN_GROUP

__all__ = [
    "Failed",
    "Finished",
    "Gather",
    "Gathered",
    "Moved",
    "Numbered",
    "Order",
    "Progress",
    "Publication",
    "Published",
    "Receive",
    "Send",
    "Stop",
    "Stopped",
    "Target",
    "Told",
    "Write",
    "Written",
]


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Where a checkpoint goes, and which one it is."""

    url: str
    step: int
    attempt: str
    """The name of this try to write it: the same for all its writers and for no other."""

    group: str = MAIN_GROUP
    """Whose it is; the parts say it as well."""

    options: dict[str, Any] = {}
    """For storage that is not a plain folder."""

    patience: float = 300.0
    """For how many seconds storage that fails is tried again, and missing parts are waited for."""


class Publication(msgspec.Struct, frozen=True, kw_only=True):
    """What the one writer has to know that makes the checkpoint exist, and prunes old ones."""

    world: int
    replicas: int
    job: str = ""
    round: int = 0
    keep: int = 0
    """How many of the newest to leave; 0 for all."""

    claim: Claim | None = None
    """That the round trains in the folder."""


class Write(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Write the parts in slots; comes with the slots' descriptors, which hold them.

    With a publication the carrier then waits for the parts of all other writers and publishes.
    """

    target: Target
    lengths: tuple[int, ...]
    publication: Publication | None = None


class Send(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Send a slot's bytes; comes with the slot's and the connection's descriptors."""

    length: int


class Receive(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Fill a slot; comes with the slot's and the connection's descriptors."""

    length: int


class Gather(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Put the pages of slots together into large ones; comes with the slots' descriptors."""


class Stop(msgspec.Struct, frozen=True, tag=True):
    """Stop the sending or receiving of this number after the piece it is at; answered for that with
    :class:`Stopped`, unless it is done by then."""


Order = Write | Send | Receive | Gather


class Numbered(msgspec.Struct, frozen=True):
    """An order on its way."""

    number: int
    order: Order | Stop


class Written(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The parts are on storage; their slots are free again."""

    size: int
    seconds: float


class Published(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A checkpoint exists."""

    step: int
    size: int
    seconds: float
    """From the order on, waiting for other nodes included."""


class Moved(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """All bytes went from or to another node."""


class Stopped(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """It was stopped; so many bytes from the part's beginning went, and none of the others."""

    moved: int


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """It did not work, and why."""

    reason: str


class Gathered(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The pages are as large as they can be."""


Finished = Written | Published | Moved | Stopped | Gathered | Failed


class Progress(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A word on what is going on: storage is in trouble and is tried again."""

    text: str


class Told(msgspec.Struct, frozen=True):
    """A word from the carrier about an order."""

    number: int
    word: Finished | Progress
