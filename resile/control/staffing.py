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


def settle_sizes(ledger: Ledger) -> None:
    """Decide how many nodes each role should have; fixed once its training is over."""
    for name, role in ledger.spec.roles.items():
        if _over(ledger, name) and name in ledger.before.roles:
            continue
        settled = settle(role, asked_size(ledger.spec, name, requests=ledger.observed.wanted))
        known = ledger.roles[name]
        scaling = known.scaling
        if name in ledger.before.roles and settled.size != known.wanted:
            grows = settled.size > known.wanted
            kind = EventKind.SCALING_UP if grows else EventKind.SCALING_DOWN
            scaling = kind.value
            limit = f" ({settled.why})" if settled.why else ""
            change = f"from {known.wanted} to {settled.size} nodes"
            ledger.note(kind, f"role {name}: {change}{limit}")
        ledger.roles[name] = replace(known, wanted=settled.size, scaling=scaling)


def _over(ledger: Ledger, role: str) -> bool:
    """Whether the role gets no more nodes: its training is over, or the job soon is."""
    return ledger.winding_down or ledger.report_on(role) is not None


def resize(ledger: Ledger) -> None:
    """Bring each role to its wanted size: new ranks wait for a node, surplus ones are retired."""
    for name, role in ledger.spec.roles.items():
        if _over(ledger, name):
            continue
        wanted = ledger.roles[name].wanted
        ranks = Ranks(
            at_work=[rank.rank for rank in ledger.of_role(name, AT_WORK)],
            done=[rank.rank for rank in ledger.of_role(name, {NodePhase.SUCCEEDED})],
            given_up=[rank.rank for rank in ledger.of_role(name, {NodePhase.FAILED})],
        )
        why = f"role {name} should have {wanted} node{'' if wanted == 1 else 's'}"
        by_rank = {rank.rank: rank for rank in ledger.of_role(name)}
        for number in surplus_ranks(ranks, wanted):
            ledger.retire(by_rank[number], "ScaledDown", why)
        for number in new_ranks(role, ranks, wanted=wanted):
            fresh = NodeStatus(role=name, rank=number, phase=NodePhase.WAITING)
            rank = replace(by_rank.get(number, fresh), phase=NodePhase.WAITING)
            ledger.put(replace(rank, reason="Wanted", message=why))


def widen_search(ledger: Ledger) -> None:
    """If there is no room away from suspect machines, forget these, and replace the pending nodes
    that avoid them. This spends no budget."""
    cornered = [rank for rank in ledger.ranks if _cornered(ledger, rank)]
    if not cornered:
        return
    hosts = " and ".join(sorted({host for rank in cornered for host in rank.avoids}))
    waited = ledger.policy.elsewhere_for.total_seconds()
    why = f"no other machine had room within {waited:g} s, so {hosts} may be used again"
    ledger.troubled_hosts = ()
    for rank in cornered:
        again = replace(rank, phase=NodePhase.WAITING, restarts=rank.restarts + 1)
        ledger.put(replace(again, reason=NOWHERE_TO_GO, message=why))
        ledger.count(rank.role, spends=False)
    others = f" and {len(cornered) - 1} more" if len(cornered) > 1 else ""
    advice = "cordon a machine that is broken"
    ledger.note(EventKind.NOWHERE_TO_GO, f"{cornered[0].name}{others}: {why}; {advice}")


def _cornered(ledger: Ledger, rank: NodeStatus) -> bool:
    moment = nowhere_to_go_at(rank, policy=ledger.policy)
    if moment is None:
        return False
    ledger.wake_at(moment)
    return ledger.now >= moment


def note_sizes_reached(ledger: Ledger) -> None:
    """End scaling of the roles that have exactly the nodes they should have."""
    for name, known in ledger.roles.items():
        settled = [rank for rank in ledger.of_role(name) if rank.phase not in _UNSETTLED]
        leaving = any(
            found.live and found.node.role == name and not _at_work(ledger, found.node)
            for found in ledger.observed.nodes
        )
        reached = len(settled) >= known.wanted and not leaving
        if known.scaling and (reached or ledger.spec.suspend):
            ledger.roles[name] = replace(known, scaling="")


def start_waiting(ledger: Ledger) -> None:
    """Start a node for each rank that waits for one and may start."""
    counts = count_nodes(ledger.ranks)
    for rank in ledger.ranks:
        if rank.phase is not NodePhase.WAITING or ledger.occupied(rank):
            continue
        if _over(ledger, rank.role):
            continue
        if rank.relaunch_at is not None and ledger.now < rank.relaunch_at:
            ledger.wake_at(rank.relaunch_at)
            continue
        waits = what_it_waits_for(ledger.spec, rank.role, counts=counts)
        if waits:
            ledger.put(replace(rank, reason=WAITS_FOR_ROLE, message=waits))
        elif rank.reason == WAITS_FOR_ROLE:
            ledger.start(rank, "the roles it waited for are running")
        else:
            ledger.start(rank, rank.message or f"rank {rank.rank} needs a node")


def retire_all(
    ledger: Ledger, reason: str, message: str, *, phases: Collection[NodePhase] = AT_WORK
) -> None:
    """Retire all ranks that are in one of ``phases``."""
    for rank in ledger.ranks:
        if rank.phase in phases:
            ledger.retire(rank, reason, message)


def sweep(ledger: Ledger) -> None:
    """Stop nodes that hold no active rank; delete ended nodes if the manifest says so."""
    delete = ledger.phase in FINISHED and ledger.spec.clean_pod_policy is CleanPolicy.ALL
    for found in ledger.observed.nodes:
        if found.holds_room:
            if not found.stopping and _superfluous(ledger, found):
                ledger.stop(found.node, _why_superfluous(ledger, found))
        elif delete and not found.stopping:
            ledger.delete(found.node, "the job has finished and cleanPodPolicy is All")
    for found in _outdated(ledger):
        ledger.delete(found.node, f"{ledger.policy.ended_kept} nodes have ended since")


def _outdated(ledger: Ledger) -> list[ObservedNode]:
    """Ended nodes that are not kept, because enough others have ended after them."""
    replaced = [
        found
        for found in ledger.observed.nodes
        if not found.holds_room and not found.stopping and ledger.holder(found.node) is None
    ]
    by_age = sorted(replaced, key=lambda found: found.node.id, reverse=True)
    return by_age[ledger.policy.ended_kept :]


def _at_work(ledger: Ledger, node: Node) -> bool:
    holder = ledger.holder(node)
    return holder is not None and holder.phase in LIVE


def _superfluous(ledger: Ledger, found: ObservedNode) -> bool:
    return not _left_alone(ledger) if found.lingers else not _at_work(ledger, found.node)


def _left_alone(ledger: Ledger) -> bool:
    """Whether the job has finished and its lingering nodes may stay."""
    kept = ledger.phase in FINISHED and ledger.spec.clean_pod_policy is CleanPolicy.NONE
    return kept and not ledger.expired and not ledger.observed.deleting


def _why_superfluous(ledger: Ledger, found: ObservedNode) -> str:
    if found.lingers:
        return "its program has ended, and a sidecar still holds its resources"
    holder = ledger.holder(found.node)
    if holder is not None:
        return holder.message or "its rank no longer needs a node"
    if found.node.role not in ledger.spec.roles:
        return f"the job no longer has role {found.node.role}"
    return "another node has taken its rank"
