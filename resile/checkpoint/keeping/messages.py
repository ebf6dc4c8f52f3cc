"""What workers ask of a keeper, and what it answers.

One packet each way, in turn. Descriptors travel with the answers that say so.
"""

from __future__ import annotations

import msgspec

from resile.checkpoint.part import PartKind
from resile.checkpoint.slots import Label, Place
from resile.checkpoint.writing.messages import Publication, Target
from resile.groupname import MAIN_GROUP

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
    "Held",
    "Hello",
    "Holding",
    "Inventory",
    "List",
    "NotEnoughRoom",
    "Open",
    "Opened",
    "Persist",
    "Publication",
    "Refused",
    "Request",
    "Reserve",
    "Reserved",
    "Resumed",
    "Status",
    "StatusWanted",
    "Target",
    "Waiting",
    "Watched",
    "Welcome",
]

AT_ONCE = 200
"""Parts in one request: their descriptors come in one packet, and the kernel takes 253."""


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """A whole part in a keeper's memory."""

    label: Label
    size: int
    is_copy: bool = False
    """It came from another node."""


# --- requests -----------------------------------------------------------------------------------


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Who asks; the first request of a connection."""

    rank: int
    local_rank: int
    world: int
    nproc: int
    """Workers of this node."""

    round: int = 0
    group: str = MAIN_GROUP

    def place(self, kind: PartKind) -> Place:
        """Where this worker's part of a kind belongs."""
        if kind is PartKind.RANK:
            return Place(kind=kind, index=self.rank, count=self.world, group=self.group)
        return Place(kind=kind, index=self.local_rank, count=self.nproc, group=self.group)


class Reserve(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Memory for this worker's part of a kind, ``size`` bytes twice."""

    kind: PartKind
    size: int


class Waiting(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The memory for this worker's part of ``step`` is held by somebody: who copies it may
    hurry."""

    kind: PartKind
    step: int


class List(msgspec.Struct, frozen=True, tag=True):
    """What is held here of this worker's group?"""


class Open(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The memory of parts, to read; all of them or none."""

    labels: tuple[Label, ...]


class Completed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """These parts of this worker's are all there; they may be copied to the next node."""

    labels: tuple[Label, ...]


class Persist(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Write this worker's parts of the target's step to storage."""

    target: Target
    kinds: tuple[PartKind, ...]
    publication: Publication | None = None
    """For the one worker whose writer publishes."""


class StatusWanted(msgspec.Struct, frozen=True, tag=True):
    """How is the writing going?"""


class Fetch(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Have a part come from the keeper at ``address`` into this one's memory, and open it."""

    address: str
    label: Label


class Await(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Answer when so many bytes of what is on its way are here."""

    arrival: int
    until: int


class FetchHeaders(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What parts in the memory of the keeper at ``address`` say of themselves."""

    address: str
    labels: tuple[Label, ...]


class Resumed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Training goes on from ``step``: whatever is later belongs to a life that is over. From now
    on this worker looks after every step whether it is asked to save before a planned change."""

    step: int
    next: str | None = None
    """Where the keeper is that this node's parts are copied to, as host:port; empty for no copies.
    None from all but the worker that speaks for its node."""


class Holding(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """This worker saved a step for a planned change, and waits."""

    step: int
    handover: int


Request = (
    Holding
    | Hello
    | Reserve
    | List
    | Open
    | Completed
    | Persist
    | StatusWanted
    | Fetch
    | Await
    | FetchHeaders
    | Resumed
    | Waiting
)


# --- answers ------------------------------------------------------------------------------------


class Welcome(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The keeper is here."""

    address: str = ""
    """Where other nodes' keepers reach it; empty if they do not."""


class Reserved(msgspec.Struct, frozen=True, tag=True):
    """Comes with two descriptors."""


class NotEnoughRoom(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """It does not fit."""

    reason: str


class Inventory(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """All whole parts of the group."""

    parts: tuple[Held, ...]


class Opened(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Comes with a descriptor a part, which holds its slot until it is closed."""

    sizes: tuple[int, ...]


class Arriving(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Comes with a descriptor of the memory that the part's bytes come into from now on. Nobody
    else writes there until training goes on."""

    arrival: int
    size: int


class Come(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """So many bytes are here."""

    count: int


class Headers(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Comes with one descriptor: memory in which the headers lie one after the other."""

    lengths: tuple[int, ...]
    """0 for a part that is not held there."""


class Watched(msgspec.Struct, frozen=True, tag=True):
    """Comes with one descriptor, of the page to look at."""


class Done(msgspec.Struct, frozen=True, tag=True):
    """So be it."""


class Accepted(msgspec.Struct, frozen=True, tag=True):
    """It will be written."""


class Busy(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """An earlier step of the same part is still being written; ask again later."""

    step: int


class Status(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """How the writing is going."""

    writing: tuple[int, ...] = ()
    """Steps of which something here is still to be written or published."""

    written: int | None = None
    """The latest step of which this node's parts are on storage."""

    committed: int | None = None
    """The latest step that a writer of this node has published."""

    trouble: str = ""
    """What went wrong last; empty once something later went well."""

    troubled_step: int | None = None
    """The step that the trouble was about."""

    copied: int | None = None
    """The newest step of which the next node has acknowledged copies of all this node's parts."""

    copy_trouble: str = ""

    @property
    def trouble_line(self) -> str:
        """The trouble and its step, for people; empty if there is none."""
        return f"step {self.troubled_step}: {self.trouble}" if self.trouble else ""


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """No, and why."""

    reason: str


Answer = (
    Welcome
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
    | Refused
)
