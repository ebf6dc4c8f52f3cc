"""Sizes of roles, and the starts and stops that bring the nodes there.

**Sizes.** The wanted size is that of a scale request, or the job's ``replicas`` for the scaled
role, or the role's own, within MIN and MAX and rounded to a multiple of nodeUnit. Scaling up takes
the lowest free ranks; scaling down removes the highest first, so that ranks stay dense and rank 0
is the last to go. Ranks that have succeeded or were given up stay as they are: a size counts
active nodes, and a rank that was given up is not started elsewhere.

**Starts.** A role waits until at least MIN nodes of those it depends on have reached a state. Only
the start of nodes is delayed; one that already runs is not affected when a role it depends on
loses a node.

**Stops** are decided from the report alone: every live node that does not hold an active rank is
stopped, whatever made it superfluous (a smaller size, a suspension, the end of the job, a
replacement). A stop that was lost is thereby repeated. A node that has ended and lingers holds
resources that another may need, and is stopped as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from resile.control.observed import ObservedNode
from resile.control.status_draft import ACTIVE_PHASES, StatusDraft
from resile.control.suspect_hosts import stop_avoiding_at
from resile.job.events import EventKind
from resile.job.node import LIVE, Node, NodePhase
from resile.job.spec.job import CleanPolicy, JobSpec
from resile.job.spec.role import DependencyCondition, RoleSpec
from resile.job.status import FINISHED, NodeStatus

__all__ = [
    "FeasibleSize",
    "NodeCounts",
    "RanksByState",
    "UP",
    "count_nodes",
    "decide_sizes",
    "feasible_size",
    "new_ranks",
    "note_sizes_reached",
    "requested_size",
    "resize",
    "retire_all",
    "start_waiting",
    "stop_avoiding_hosts",
    "stop_superfluous",
    "surplus_ranks",
    "unmet_dependencies",
]


@dataclass(frozen=True)
class FeasibleSize:
    """A size that a role can have, and why it differs from the requested one, if it does."""

    size: int
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class RanksByState:
    """The ranks of one role by state. All others are free."""

    at_work: Collection[int] = ()
    done: Collection[int] = ()
    given_up: Collection[int] = ()


def requested_size(spec: JobSpec, role: str, *, requests: Mapping[str, int]) -> int | None:
    """The size requested from outside the role; None if the role's own applies."""
    if role in requests:
        return requests[role]
    return spec.replicas if role == spec.scaled_role() else None


def feasible_size(role: RoleSpec, asked: int | None) -> FeasibleSize:
    """The nearest size to ``asked`` that the role can have; the role's own if None."""
    size, unit = role.size, role.node_unit
    target = size.wanted if asked is None else asked
    least = -(-size.min // unit) * unit
    most = size.max // unit * unit
    nearest = max(least, min(most, target // unit * unit))
    if nearest == target or asked is None:
        return FeasibleSize(nearest)
    if target < least:
        return FeasibleSize(nearest, f"{target} is less than min ({least})")
    if target > most:
        return FeasibleSize(nearest, f"{target} is more than max ({most})")
    return FeasibleSize(nearest, f"{target} is not a multiple of nodeUnit ({unit})")


def surplus_ranks(ranks: RanksByState, wanted: int) -> list[int]:
    """The active ranks to stop, highest first."""
    excess = len(ranks.at_work) - wanted
    return sorted(ranks.at_work, reverse=True)[:excess] if excess > 0 else []


def new_ranks(role: RoleSpec, ranks: RanksByState, *, wanted: int) -> list[int]:
    """The ranks to add, lowest first.

    A rank that was given up lowers the size. Only if it would fall below MIN, another rank is added
    instead, as far as MAX allows.
    """
    size = role.size
    target = min(size.max, max(wanted, size.min + len(ranks.given_up)))
    taken = {*ranks.at_work, *ranks.done, *ranks.given_up}
    free = (rank for rank in range(size.max + len(taken)) if rank not in taken)
    return [next(free) for _ in range(max(0, target - len(taken)))]


UP = frozenset({NodePhase.RUNNING, NodePhase.SUCCEEDED})
"""The phases of nodes that satisfy a dependency on a running role."""

NodeCounts = Mapping[DependencyCondition, Mapping[str, int]]
"""The number of nodes of each role that have reached each state."""


def count_nodes(ranks: Collection[NodeStatus]) -> NodeCounts:
    """Count the nodes of each role by the states that others may wait for."""
    done = [rank for rank in ranks if rank.phase is NodePhase.SUCCEEDED]
    ready = [rank for rank in ranks if rank.phase is NodePhase.RUNNING and rank.ready]
    return {
        DependencyCondition.RUNNING: _by_role(rank for rank in ranks if rank.phase in UP),
        DependencyCondition.READY: _by_role((*ready, *done)),
        DependencyCondition.SUCCEEDED: _by_role(done),
    }


def _by_role(ranks: Iterable[NodeStatus]) -> Mapping[str, int]:
    return Counter(rank.role for rank in ranks)


def unmet_dependencies(spec: JobSpec, role: str, *, counts: NodeCounts) -> str:
    """A clause naming the roles that ``role`` waits for; empty when it may start."""
    short = []
    for name, condition in spec.dependencies(role).items():
        least = max(1, spec.roles[name].size.min)
        reached = counts[condition].get(name, 0)
        if reached < least:
            short.append(f"{name} ({reached} of {least} {condition.value.lower()})")
    return f"waits for {' and '.join(short)}" if short else ""


WAITS_FOR_ROLE = "WaitsForRole"
NO_OTHER_HOST = EventKind.NO_OTHER_HOST.value
"""The reason of ranks whose node had no other machine to run on."""

_UNSETTLED = frozenset({NodePhase.WAITING, NodePhase.PENDING, NodePhase.STOPPED})


def decide_sizes(draft: StatusDraft) -> None:
    """Decide how many nodes each role should have; fixed once its training is over."""
    for name, role in draft.spec.roles.items():
        if _over(draft, name) and name in draft.before.roles:
            continue
        settled = feasible_size(
            role, requested_size(draft.spec, name, requests=draft.observed.wanted)
        )
        known = draft.roles[name]
        scaling = known.scaling
        if name in draft.before.roles and settled.size != known.wanted:
            grows = settled.size > known.wanted
            kind = EventKind.SCALING_UP if grows else EventKind.SCALING_DOWN
            scaling = kind.value
            limit = f" ({settled.why})" if settled.why else ""
            change = f"from {known.wanted} to {settled.size} nodes"
            draft.note(kind, f"role {name}: {change}{limit}")
        draft.roles[name] = replace(known, wanted=settled.size, scaling=scaling)


def _over(draft: StatusDraft, role: str) -> bool:
    """Return whether the role gets no more nodes: its training is over, or the job soon is."""
    return draft.winding_down or draft.report_on(role) is not None


def resize(draft: StatusDraft) -> None:
    """Bring each role to its wanted size: new ranks wait for a node, surplus ones are retired."""
    for name, role in draft.spec.roles.items():
        if _over(draft, name):
            continue
        wanted = draft.roles[name].wanted
        ranks = RanksByState(
            at_work=[rank.rank for rank in draft.of_role(name, ACTIVE_PHASES)],
            done=[rank.rank for rank in draft.of_role(name, {NodePhase.SUCCEEDED})],
            given_up=[rank.rank for rank in draft.of_role(name, {NodePhase.FAILED})],
        )
        why = f"role {name} should have {wanted} node{'' if wanted == 1 else 's'}"
        by_rank = {rank.rank: rank for rank in draft.of_role(name)}
        for number in surplus_ranks(ranks, wanted):
            draft.retire(by_rank[number], "ScaledDown", why)
        for number in new_ranks(role, ranks, wanted=wanted):
            fresh = NodeStatus(role=name, rank=number, phase=NodePhase.WAITING)
            rank = replace(by_rank.get(number, fresh), phase=NodePhase.WAITING)
            draft.put(replace(rank, reason="Wanted", message=why))


def stop_avoiding_hosts(draft: StatusDraft) -> None:
    """If there is no room away from suspect machines, forget these, and replace the pending nodes
    that avoid them. This spends no budget."""
    cornered = [rank for rank in draft.ranks if _cornered(draft, rank)]
    if not cornered:
        return
    hosts = " and ".join(sorted({host for rank in cornered for host in rank.avoids}))
    waited = draft.policy.avoid_hosts_for.total_seconds()
    why = f"no other machine had room within {waited:g} s, so {hosts} may be used again"
    draft.troubled_hosts = ()
    for rank in cornered:
        again = replace(rank, phase=NodePhase.WAITING, restarts=rank.restarts + 1)
        draft.put(replace(again, reason=NO_OTHER_HOST, message=why))
        draft.count(rank.role, spends=False)
    others = f" and {len(cornered) - 1} more" if len(cornered) > 1 else ""
    advice = "cordon a machine that is broken"
    draft.note(EventKind.NO_OTHER_HOST, f"{cornered[0].name}{others}: {why}; {advice}")


def _cornered(draft: StatusDraft, rank: NodeStatus) -> bool:
    moment = stop_avoiding_at(rank, policy=draft.policy)
    if moment is None:
        return False
    draft.wake_at(moment)
    return draft.now >= moment


def note_sizes_reached(draft: StatusDraft) -> None:
    """End scaling of the roles that have exactly the nodes they should have."""
    for name, known in draft.roles.items():
        settled = [rank for rank in draft.of_role(name) if rank.phase not in _UNSETTLED]
        leaving = any(
            found.live and found.node.role == name and not _at_work(draft, found.node)
            for found in draft.observed.nodes
        )
        reached = len(settled) >= known.wanted and not leaving
        if known.scaling and (reached or draft.spec.suspend):
            draft.roles[name] = replace(known, scaling="")


def start_waiting(draft: StatusDraft) -> None:
    """Start a node for each rank that waits for one and may start."""
    counts = count_nodes(draft.ranks)
    for rank in draft.ranks:
        if rank.phase is not NodePhase.WAITING or draft.occupied(rank):
            continue
        if _over(draft, rank.role):
            continue
        if rank.relaunch_at is not None and draft.now < rank.relaunch_at:
            draft.wake_at(rank.relaunch_at)
            continue
        waits = unmet_dependencies(draft.spec, rank.role, counts=counts)
        if waits:
            draft.put(replace(rank, reason=WAITS_FOR_ROLE, message=waits))
        elif rank.reason == WAITS_FOR_ROLE:
            draft.start(rank, "the roles it waited for are running")
        else:
            draft.start(rank, rank.message or f"rank {rank.rank} needs a node")


def retire_all(
    draft: StatusDraft, reason: str, message: str, *, phases: Collection[NodePhase] = ACTIVE_PHASES
) -> None:
    """Retire all ranks that are in one of ``phases``."""
    for rank in draft.ranks:
        if rank.phase in phases:
            draft.retire(rank, reason, message)


def stop_superfluous(draft: StatusDraft) -> None:
    """Stop nodes that hold no active rank; delete ended nodes if the manifest says so."""
    delete = draft.phase in FINISHED and draft.spec.clean_pod_policy is CleanPolicy.ALL
    for found in draft.observed.nodes:
        if found.holds_room:
            if not found.stopping and _superfluous(draft, found):
                draft.stop(found.node, _why_superfluous(draft, found))
        elif delete and not found.stopping:
            draft.delete(found.node, "the job has finished and cleanPodPolicy is All")
    for found in _outdated(draft):
        draft.delete(found.node, f"{draft.policy.ended_kept} nodes have ended since")


def _outdated(draft: StatusDraft) -> list[ObservedNode]:
    """Ended nodes that are not kept, because enough others have ended after them."""
    replaced = [
        found
        for found in draft.observed.nodes
        if not found.holds_room and not found.stopping and draft.holder(found.node) is None
    ]
    by_age = sorted(replaced, key=lambda found: found.node.id, reverse=True)
    return by_age[draft.policy.ended_kept :]


def _at_work(draft: StatusDraft, node: Node) -> bool:
    holder = draft.holder(node)
    return holder is not None and holder.phase in LIVE


def _superfluous(draft: StatusDraft, found: ObservedNode) -> bool:
    return not _left_alone(draft) if found.lingers else not _at_work(draft, found.node)


def _left_alone(draft: StatusDraft) -> bool:
    """Return whether the job has finished and its lingering nodes may stay."""
    kept = draft.phase in FINISHED and draft.spec.clean_pod_policy is CleanPolicy.NONE
    return kept and not draft.expired and not draft.observed.deleting


def _why_superfluous(draft: StatusDraft, found: ObservedNode) -> str:
    if found.lingers:
        return "its program has ended, and a sidecar still holds its resources"
    holder = draft.holder(found.node)
    if holder is not None:
        return holder.message or "its rank no longer needs a node"
    if found.node.role not in draft.spec.roles:
        return f"the job no longer has role {found.node.role}"
    return "another node has taken its rank"
