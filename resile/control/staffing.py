"""Bring the nodes to the wanted state: sizes, starts and stops.

Stops are decided from the report alone: every live node that does not hold an active rank is
stopped, whatever made it superfluous (a smaller size, a suspension, the end of the job, a
replacement). A stop that was lost is thereby repeated. A node that has ended and lingers holds
resources that another may need, and is stopped as well.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from resile.control.hosts import nowhere_to_go_at
from resile.control.ledger import AT_WORK, Ledger
from resile.control.observed import ObservedNode
from resile.control.ordering import count_nodes, what_it_waits_for
from resile.control.scaling import Ranks, asked_size, new_ranks, settle, surplus_ranks
from resile.job.events import EventKind
from resile.job.node import LIVE, Node, NodePhase
from resile.job.spec import CleanPolicy
from resile.job.status import FINISHED, NodeStatus

__all__ = [
    "note_sizes_reached",
    "resize",
    "retire_all",
    "settle_sizes",
    "start_waiting",
    "sweep",
    "widen_search",
]

WAITS_FOR_ROLE = "WaitsForRole"
NOWHERE_TO_GO = EventKind.NOWHERE_TO_GO.value
"""The reason of ranks whose node had no other machine to run on."""

_UNSETTLED = frozenset({NodePhase.WAITING, NodePhase.PENDING, NodePhase.STOPPED})


def settle_sizes(draft: Ledger) -> None:
    """Decide how many nodes each role should have; fixed once its training is over."""
    for name, role in draft.spec.roles.items():
        if _over(draft, name) and name in draft.before.roles:
            continue
        settled = settle(role, asked_size(draft.spec, name, requests=draft.observed.wanted))
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


def _over(draft: Ledger, role: str) -> bool:
    """Whether the role gets no more nodes: its training is over, or the job soon is."""
    return draft.winding_down or draft.report_on(role) is not None


def resize(draft: Ledger) -> None:
    """Bring each role to its wanted size: new ranks wait for a node, surplus ones are retired."""
    for name, role in draft.spec.roles.items():
        if _over(draft, name):
            continue
        wanted = draft.roles[name].wanted
        ranks = Ranks(
            at_work=[rank.rank for rank in draft.of_role(name, AT_WORK)],
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


def widen_search(draft: Ledger) -> None:
    """If there is no room away from suspect machines, forget these, and replace the pending nodes
    that avoid them. This spends no budget."""
    cornered = [rank for rank in draft.ranks if _cornered(draft, rank)]
    if not cornered:
        return
    hosts = " and ".join(sorted({host for rank in cornered for host in rank.avoids}))
    waited = draft.policy.elsewhere_for.total_seconds()
    why = f"no other machine had room within {waited:g} s, so {hosts} may be used again"
    draft.troubled_hosts = ()
    for rank in cornered:
        again = replace(rank, phase=NodePhase.WAITING, restarts=rank.restarts + 1)
        draft.put(replace(again, reason=NOWHERE_TO_GO, message=why))
        draft.count(rank.role, spends=False)
    others = f" and {len(cornered) - 1} more" if len(cornered) > 1 else ""
    advice = "cordon a machine that is broken"
    draft.note(EventKind.NOWHERE_TO_GO, f"{cornered[0].name}{others}: {why}; {advice}")


def _cornered(draft: Ledger, rank: NodeStatus) -> bool:
    moment = nowhere_to_go_at(rank, policy=draft.policy)
    if moment is None:
        return False
    draft.wake_at(moment)
    return draft.now >= moment


def note_sizes_reached(draft: Ledger) -> None:
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


def start_waiting(draft: Ledger) -> None:
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
        waits = what_it_waits_for(draft.spec, rank.role, counts=counts)
        if waits:
            draft.put(replace(rank, reason=WAITS_FOR_ROLE, message=waits))
        elif rank.reason == WAITS_FOR_ROLE:
            draft.start(rank, "the roles it waited for are running")
        else:
            draft.start(rank, rank.message or f"rank {rank.rank} needs a node")


def retire_all(
    draft: Ledger, reason: str, message: str, *, phases: Collection[NodePhase] = AT_WORK
) -> None:
    """Retire all ranks that are in one of ``phases``."""
    for rank in draft.ranks:
        if rank.phase in phases:
            draft.retire(rank, reason, message)


def sweep(draft: Ledger) -> None:
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


def _outdated(draft: Ledger) -> list[ObservedNode]:
    """Ended nodes that are not kept, because enough others have ended after them."""
    replaced = [
        found
        for found in draft.observed.nodes
        if not found.holds_room and not found.stopping and draft.holder(found.node) is None
    ]
    by_age = sorted(replaced, key=lambda found: found.node.id, reverse=True)
    return by_age[draft.policy.ended_kept :]


def _at_work(draft: Ledger, node: Node) -> bool:
    holder = draft.holder(node)
    return holder is not None and holder.phase in LIVE


def _superfluous(draft: Ledger, found: ObservedNode) -> bool:
    return not _left_alone(draft) if found.lingers else not _at_work(draft, found.node)


def _left_alone(draft: Ledger) -> bool:
    """Whether the job has finished and its lingering nodes may stay."""
    kept = draft.phase in FINISHED and draft.spec.clean_pod_policy is CleanPolicy.NONE
    return kept and not draft.expired and not draft.observed.deleting


def _why_superfluous(draft: Ledger, found: ObservedNode) -> str:
    if found.lingers:
        return "its program has ended, and a sidecar still holds its resources"
    holder = draft.holder(found.node)
    if holder is not None:
        return holder.message or "its rank no longer needs a node"
    if found.node.role not in draft.spec.roles:
        return f"the job no longer has role {found.node.role}"
    return "another node has taken its rank"
