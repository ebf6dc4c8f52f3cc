"""What masters and `resile up` answer over HTTP: JSON, for people and tools.

Fields are only ever added, with defaults, so that an older reader understands a newer master and
a snapshot written last year can still be shown.
"""

from __future__ import annotations

from typing import Any

import msgspec

from resile.job.status import JobStatus
from resile.wire.bounds import Moment, Number
from resile.wire.messages import FailureReport, Progress, Usage

__all__ = [
    "EventView",
    "JobPicture",
    "JobView",
    "LogFile",
    "NodePicture",
    "NodeView",
    "RankView",
    "Refusal",
    "Usage",
]


class RankView(msgspec.Struct, frozen=True, kw_only=True):
    """How far one worker has come in its round, as its agent said last."""

    rank: Number
    local_rank: Number
    step: int
    age: float
    """Seconds that it had been at this step."""

    step_time: float | None = None
    """Seconds that a step takes lately."""


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """A node as its master sees it: ``GET /v1/status``."""

    id: Number
    name: str
    host: str
    pid: Number
    role: str
    rank: Number | None
    state: str
    connected: bool
    workers: Number
    progress: Progress | None
    usage: Usage | None = None
    worker_pids: tuple[int, ...] = ()
    """By local rank; known only where the node's own agent was asked."""

    ranks: tuple[RankView, ...] = ()
    """How far each of its workers has come, in the order of their ranks."""


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """The training as its master sees it: ``GET /v1/status``."""

    job: str
    phase: str
    round: Number
    reason: str
    min_nodes: Number
    max_nodes: Number
    world_size: Number
    restarts: Number
    max_restarts: Number
    step: int | None
    nodes: list[NodeView]
    report: FailureReport | None
    throughput: str = ""
    """How fast it is, with its unit: 12.5 steps/s."""

    total: int | None = None
    """How many steps there will be in all, if the script says so."""

    loss: float | None = None
    resumed: int | None = None
    """The step that training went on with after its last restore, if there was one."""

    source: str = ""
    """What that was restored from: memory, storage."""

    failures: dict[str, Number] = msgspec.field(default_factory=dict)
    """How often workers failed, by the name of their node; also of nodes that have left."""

    group: str = ""
    """Whose training it is; empty for the job's main group."""


class EventView(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened, and why: ``GET /v1/events``."""

    seq: Number
    time: Moment
    """Unix time."""

    kind: str
    text: str
    node: Number | None = None
    round: Number = 0
    group: str = ""


class _Camel(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What stands beside a job's status is written as the status is."""


class NodePicture(_Camel, frozen=True, kw_only=True):
    """One rank of a role: what its controller decided, and what its node does in the round."""

    name: str
    role: str
    rank: int | None
    phase: str
    id: int | None = None
    """The controller's number of the node, which grows with each replacement."""

    reason: str = ""
    message: str = ""
    state: str = ""
    """What the master says of it: idle, ready, running, failed, succeeded, spare."""

    connected: bool = False
    workers: int = 0
    host: str = ""
    pid: int = 0
    round: int | None = None
    step: int | None = None
    loss: float | None = None
    worker_pids: tuple[int, ...] = ()
    restarts: int = 0
    """How often the node was replaced, and its workers failed and were started again."""

    spent: int = 0
    memory_limit: str = ""
    usage: Usage | None = None


class JobPicture(_Camel, frozen=True, kw_only=True):
    """Everything there is to see of a job at one moment: ``GET /v1/jobs/NAME`` of a `resile up`."""

    name: str
    phase: str
    message: str = ""
    """Why it is in that phase, in a sentence."""

    nodes: tuple[NodePicture, ...] = ()
    training: JobView | None = None
    status: JobStatus | None = None
    """What the controller published; None for a job that no controller looks after."""

    manifest: dict[str, Any] | None = None
    wishes: dict[str, int] = msgspec.field(default_factory=dict)
    """Sizes asked for by scale requests, by role."""

    suspend: bool | None = None
    """Whether it is to be suspended, once somebody asked; else the manifest counts."""

    deleting: bool = False
    created: Moment = 0.0
    """Unix time, as is the next."""

    seen: Moment = 0.0
    ended: str = ""
    """How the job's platform ended, once it has: only in what it leaves behind."""

    groups: dict[str, JobView] = msgspec.field(default_factory=dict)
    """The training of every group but the main one, which is ``training``."""


class LogFile(msgspec.Struct, frozen=True, kw_only=True):
    """One node's output."""

    node: str
    size: int


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why the master did not do as it was asked."""

    error: str
