"""The training of one group, as the job's master sees it: structs of the view of a job. Pure.

The master answers with :class:`TrainingView`, the operator writes it
into the job's status, and commands read it from either. In a status it is :func:`trimmed`: the same
struct with fewer entries and shorter texts, because a status is sent to every watcher of the job
and has to fit into one Kubernetes object.

In JSON the names are camelCase, and a field that has its default is left out. Fields are only ever
added, with defaults: data of older versions can be read, unknown fields are ignored. The numbers
have bounds, because a master is as trustworthy as the job's own code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import Enum
from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from resile.job.errors import QuantityError
from resile.job.spec.quantity import parse_quantity

__all__ = [
    "LARGEST",
    "LAST_WORDS",
    "LISTED",
    "SHOWN",
    "Failure",
    "MemberState",
    "NodeView",
    "RankView",
    "TrainingPhase",
    "TrainingView",
    "amount_in",
    "cpu_text",
    "memory_text",
    "trimmed",
    "trimmed_groups",
    "writable",
]

LISTED = 250
"""Up to so many nodes are all listed in a status: some 100 KB, and more than a person reads."""

SHOWN = 100
"""The most nodes that are listed of a larger job: those with a problem."""

LAST_WORDS = 4096
"""Characters of a failed worker's last output: the end of a traceback. A Kubernetes object may have
1 MiB."""

LEAST_WORDS = 128
ALL_WORDS = 8 * LAST_WORDS
"""Characters of last output: the minimum of each group, and the maximum of all groups together."""

GROUPS_ROOM = 160 * 1024
"""Bytes of all groups but the main one. 250 groups of one node each, all failed, take 140 KB."""

WORD = 255
SENTENCE = 1024
"""Characters of a name or state, and of a reason."""

LARGEST = 2**63
"""Numbers from here on cannot be stored in a Kubernetes object."""

KIBI, MEBI = 1024, 1024**2

AWAY, OTHER = "away", "other"

_MOST = 2**53
_ATOMIC = {"x-kubernetes-map-type": "atomic"}
"""Without it, an API server records which client wrote which field of each entry."""

Count = Annotated[int, Meta(ge=0, le=_MOST)]
"""Never negative, and exact in JSON."""


class TrainingPhase(str, Enum):
    """The phase of a group's round, or how its training ended."""

    GATHERING = "gathering"
    FORMING = "forming"
    """The round has its members."""

    RUNNING = "running"
    """All members have started their workers."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"


ENDED = frozenset({TrainingPhase.SUCCEEDED, TrainingPhase.FAILED, TrainingPhase.STOPPED})


class MemberState(str, Enum):
    """The state of a node in the round."""

    IDLE = "idle"
    READY = "ready"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SPARE = "spare"
    """The node is connected, but not in the round."""


_STATES = frozenset(state.value for state in MemberState)
_WELL = frozenset({MemberState.RUNNING, MemberState.SUCCEEDED, MemberState.SPARE})


class _ViewStruct(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of these structs. Unknown fields are ignored: a newer version may have written them."""


class Failure(_ViewStruct, frozen=True, kw_only=True):
    """The worker whose failure ended a training: the one that failed first."""

    node: Annotated[str, Meta(description="The name of its node.")]
    node_id: Annotated[Count, Meta(description="The master's number of that node.")]
    host: Annotated[str, Meta(description="The host that it ran on.")]
    rank: Annotated[Count, Meta(description="Its rank among all workers of its group.")]
    local_rank: Annotated[Count, Meta(description="Its rank among those of its node.")]
    pid: Annotated[Count, Meta(description="Its process id.")]
    exit_code: Annotated[
        int, Meta(ge=-(2**31), le=2**32, description="Its exit code; negative for a signal.")
    ]
    at: Annotated[datetime, Meta(tz=True, description="When it failed.")]
    message: Annotated[str, Meta(description="The end of its last words.")] = ""
    log: Annotated[str, Meta(description="The file with its output, if it was kept.")] = ""
    others: Annotated[Count, Meta(description="How many more failed after it.")] = 0
    group: Annotated[
        str, Meta(description="The group whose training failed; empty for the main group.")
    ] = ""


class RankView(_ViewStruct, frozen=True, kw_only=True):
    """The progress of one worker in its round, as its agent last reported it."""

    rank: Annotated[Count, Meta(description="Its rank among all workers of its group.")]
    local_rank: Annotated[Count, Meta(description="Its rank among those of its node.")]
    step: Annotated[int, Meta(description="The step that it reported last.")]
    age: Annotated[float, Meta(description="Seconds since it reached that step.")]
    step_time: Annotated[
        float | None, Meta(description="Seconds that a step takes lately, once two were seen.")
    ] = None


class NodeView(_ViewStruct, frozen=True, kw_only=True):
    """A node: the decisions of its controller, and the view of its master."""

    name: Annotated[str, Meta(description="Its name; on a cluster, that of its pod.")] = ""
    role: Annotated[str, Meta(description="The role it belongs to.")] = ""
    rank: Annotated[
        Count | None, Meta(description="Its slot in the role; a replacement takes it over.")
    ] = None
    phase: Annotated[
        str,
        Meta(
            description="Where it is in its life, as its controller sees it: Waiting, Pending, "
            "Running, Succeeded, Failed, Stopped."
        ),
    ] = ""
    id: Annotated[
        Count | None,
        Meta(description="The controller's number of the node; a replacement gets a new one."),
    ] = None
    reason: Annotated[str, Meta(description="One CamelCase word for the phase.")] = ""
    message: Annotated[str, Meta(description="The phase in a sentence.")] = ""
    host: Annotated[str, Meta(description="The machine it runs on.")] = ""
    restarts: Annotated[
        Count,
        Meta(
            description="How often it was replaced, and how often its workers failed and were "
            "restarted."
        ),
    ] = 0
    spent: Annotated[Count, Meta(description="Relaunches that counted against the budget.")] = 0
    memory_limit: Annotated[str, Meta(description="The memory it may use: 2Gi.")] = ""
    member: Annotated[
        Count | None, Meta(description="The master's number of the node, once it has joined.")
    ] = None
    group: Annotated[
        str, Meta(description="The group it trains with; empty for the main group.")
    ] = ""
    state: Annotated[
        str,
        Meta(
            description="What it does in the round: idle, ready, running, succeeded, failed; or it "
            "is a spare."
        ),
    ] = ""
    away: Annotated[bool, Meta(description="Whether its connection to the master is lost.")] = False
    workers: Annotated[Count, Meta(description="How many workers it runs.")] = 0
    pid: Annotated[Count, Meta(description="The process id of its agent.")] = 0
    round: Annotated[Count | None, Meta(description="The round it is a member of.")] = None
    step: Annotated[int | None, Meta(description="The step that it reported last.")] = None
    loss: Annotated[float | None, Meta(description="The loss that it reported last.")] = None
    cpu: Annotated[str, Meta(description="CPU in use, in cores: 1.5.")] = ""
    memory: Annotated[str, Meta(description="Memory in use: 364Mi.")] = ""
    worker_pids: Annotated[
        tuple[Count, ...],
        Meta(description="The process ids of its workers, by local rank; empty if not known."),
    ] = ()
    ranks: Annotated[
        tuple[RankView, ...],
        Meta(description="How far each of its workers has come, in the order of their ranks."),
    ] = ()


class TrainingView(_ViewStruct, frozen=True, kw_only=True):
    """The training of one group, as the job's master sees it."""

    phase: Annotated[
        str,
        Meta(
            description="Of the round: gathering, forming, running; of a training that is over: "
            "succeeded, failed, stopped."
        ),
    ] = ""
    reason: Annotated[str, Meta(description="Why there is this round, or how it ended.")] = ""
    round: Annotated[Count, Meta(description="The number of the round; 0 before the first.")] = 0
    world_size: Annotated[Count, Meta(description="How many workers the round has.")] = 0
    min_nodes: Annotated[Count, Meta(description="Nodes that a round needs at least.")] = 0
    max_nodes: Annotated[Count, Meta(description="Nodes that a round may have at most.")] = 0
    restarts: Annotated[Count, Meta(description="Rounds that failing workers cost.")] = 0
    max_restarts: Annotated[Count, Meta(description="How many of those there may be.")] = 0
    step: Annotated[int | None, Meta(description="The highest step that was reported.")] = None
    total_steps: Annotated[
        int | None, Meta(description="How many steps there will be, if the script says so.")
    ] = None
    loss: Annotated[float | None, Meta(description="The loss that was reported last.")] = None
    throughput: Annotated[
        str, Meta(description="How fast the training is, with its unit: 12.3 steps/s.")
    ] = ""
    resumed: Annotated[
        int | None,
        Meta(description="The step at which it resumed after its last restore, if there was one."),
    ] = None
    source: Annotated[str, Meta(description="What it was restored from then: memory, storage.")] = (
        ""
    )
    failure: Annotated[
        Failure | None, Meta(description="Which worker failed first, if the training failed.")
    ] = None
    worker_failures: Annotated[
        dict[str, Count],
        Meta(
            description="How often workers failed, by node; not where none did. Of a large job "
            "where it was most often.",
            extra_json_schema=_ATOMIC,
        ),
    ] = msgspec.field(default_factory=dict)
    nodes: Annotated[
        dict[str, NodeView],
        Meta(
            description="Each node that has joined, by name. In a status they are updated every "
            "few seconds; of a large job only those that are not well are listed.",
            extra_json_schema=_ATOMIC,
        ),
    ] = msgspec.field(default_factory=dict)
    counts: Annotated[
        dict[str, Count],
        Meta(description="Of a large job: how many nodes are in each state, and how many away."),
    ] = msgspec.field(default_factory=dict)
    group: Annotated[
        str, Meta(description="The group whose training it is; empty for the main group.")
    ] = ""

    @property
    def over(self) -> bool:
        """Return whether the training has ended, successfully or not."""
        return self.phase in ENDED


# --- trimming -----------------------------------------------------------------------------------


def trimmed(seen: TrainingView, *, words: int = LAST_WORDS) -> TrainingView:
    """Return the training, shortened to fit into a status. Trimming it again changes nothing.

    Of a large job only nodes with a problem are listed, and the states of all are counted.
    ``words``: characters of a failed worker's last output.
    """
    large = len(seen.nodes) > LISTED
    listed = _unwell(seen.nodes) if large else dict(seen.nodes)
    return replace(
        seen,
        phase=_cut(seen.phase, WORD),
        reason=_cut(seen.reason, min(SENTENCE, words)),
        step=writable(seen.step),
        total_steps=writable(seen.total_steps),
        throughput=_cut(seen.throughput, WORD),
        resumed=writable(seen.resumed),
        source=_cut(seen.source, WORD),
        failure=None if seen.failure is None else _short_failure(seen.failure, words),
        worker_failures=_most_failures(seen.worker_failures),
        nodes={_cut(name, WORD): _short_node(node) for name, node in listed.items()},
        counts=_counts(seen.nodes.values()) if large else dict(list(seen.counts.items())[:SHOWN]),
        group=_cut(seen.group, WORD),
    )


def trimmed_groups(seen: Mapping[str, TrainingView]) -> dict[str, TrainingView]:
    """Return the trainings of all groups but the main one, shortened to fit into a status.

    Nodes that work independently have a group each, so there may be as many groups as nodes. Of a
    large job only groups with a problem are listed; all of them share the room for nodes and for
    last output. What does not fit is left out.
    """
    listed = dict(seen)
    if len(listed) > LISTED:
        unwell = [name for name, one in listed.items() if not _is_well_group(one)]
        listed = {name: listed[name] for name in unwell[:SHOWN]}
    crowded = sum(len(one.nodes) for one in listed.values()) > LISTED
    words = max(LEAST_WORDS, min(LAST_WORDS, ALL_WORDS // max(1, len(listed))))
    nodes, room = LISTED, GROUPS_ROOM
    short: dict[str, TrainingView] = {}
    for name, one in listed.items():
        some = trimmed(_without_well_nodes(one, at_most=nodes) if crowded else one, words=words)
        failures = dict(list(some.worker_failures.items())[: max(1, LISTED // len(listed))])
        some = replace(some, worker_failures=failures)
        room -= len(msgspec.json.encode({_cut(name, WORD): some}))
        if room < 0:
            break
        nodes -= len(some.nodes)
        short[_cut(name, WORD)] = some
    return short


def writable(number: int | None) -> int | None:
    """Return a number that a script reported; None if a Kubernetes object cannot hold it."""
    return number if number is not None and abs(number) < LARGEST else None


def _unwell(nodes: Mapping[str, NodeView]) -> dict[str, NodeView]:
    unwell = [name for name, node in nodes.items() if not _is_well(node)]
    return {name: nodes[name] for name in unwell[:SHOWN]}


def _without_well_nodes(seen: TrainingView, *, at_most: int) -> TrainingView:
    unwell = list(_unwell(seen.nodes).items())[: max(0, at_most)]
    return replace(seen, nodes=dict(unwell), counts=_counts(seen.nodes.values()))


def _is_well(node: NodeView) -> bool:
    return not node.away and node.state in _WELL


def _is_well_group(seen: TrainingView) -> bool:
    good = seen.phase in (TrainingPhase.RUNNING, TrainingPhase.SUCCEEDED)
    return good and all(map(_is_well, seen.nodes.values()))


def _counts(nodes: Iterable[NodeView]) -> dict[str, int]:
    """Return the number of nodes in each state that occurs, and the number of those away."""
    found = list(nodes)
    states = Counter(node.state if node.state in _STATES else OTHER for node in found)
    away = sum(node.away for node in found)
    return {**dict(sorted(states.items())), **({AWAY: away} if away else {})}


def _most_failures(failures: Mapping[str, int]) -> dict[str, int]:
    """Return the nodes with the most failures that a status has room for, in the given order."""
    most = sorted(failures, key=lambda name: -failures[name])[:LISTED]
    kept = set(most)
    return {_cut(name, WORD): count for name, count in failures.items() if name in kept}


def _short_node(node: NodeView) -> NodeView:
    """Return only what the controller does not know: the rest is in the status already."""
    return NodeView(
        state=_cut(node.state, WORD),
        away=node.away,
        workers=node.workers,
        step=writable(node.step),
        loss=node.loss,
        cpu=_cut(node.cpu, WORD),
        memory=_cut(node.memory, WORD),
    )


def _short_failure(failure: Failure, words: int) -> Failure:
    return replace(
        failure,
        node=_cut(failure.node, WORD),
        host=_cut(failure.host, WORD),
        message=_end_of(failure.message, words),
        log=_cut(failure.log, words),
        group=_cut(failure.group, WORD),
    )


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _end_of(words: str, length: int) -> str:
    """Return as many whole lines from the end as there is room for."""
    if len(words) <= length:
        return words
    end = words[-length:]
    return end.partition("\n")[2] or end


# --- amounts ------------------------------------------------------------------------------------


def cpu_text(cores: float | None) -> str:
    """Return an amount of cores, rounded for people: ``1.5``."""
    return "" if cores is None else f"{cores:.1f}"


def memory_text(size: int | None) -> str:
    """Return an amount of bytes as a Kubernetes quantity, rounded for people: ``364Mi``."""
    if size is None:
        return ""
    return f"{round(size / MEBI)}Mi" if size >= MEBI else f"{round(size / KIBI)}Ki"


def amount_in(text: str) -> float | None:
    """Parse an amount of CPU or memory; None if the text is not one."""
    try:
        return float(parse_quantity(text).amount) if text else None
    except QuantityError:
        return None
