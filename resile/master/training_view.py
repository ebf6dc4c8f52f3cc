"""The training of each group as the master sees it: the struct in its HTTP answers. Pure."""

from __future__ import annotations

from resile.job.throughput import speed_text
from resile.job.training import (
    MemberState,
    NodeView,
    RankView,
    TrainingView,
    cpu_text,
    memory_text,
)
from resile.master.membership import Membership
from resile.master.nodes import NodeEntry
from resile.master.records import RoundPhase
from resile.master.service import MasterService
from resile.wire.failures import failure_view
from resile.wire.messages import Progress, RankProgress, Usage

__all__ = ["training_view", "trainings"]


def trainings(service: MasterService) -> dict[str, TrainingView]:
    """Return the training of every group by name, the main one first."""
    return {
        group.name: training_view(service, group)
        for group in (service.membership, *service.groups.others)
    }


def training_view(service: MasterService, group: Membership | None = None) -> TrainingView:
    """Return the current training of a group; of the main one if none is given."""
    membership = group or service.membership
    nodes: dict[str, NodeView] = {}
    for node in membership.nodes:
        shown = _node_view(node, membership)
        # A platform gives names; agents that joined by themselves may have the same one.
        nodes[shown.name if shown.name not in nodes else f"{shown.name}#{node.id}"] = shown
    reported = service.reported[membership.name]
    steps = [node.step for node in nodes.values() if node.step is not None]
    outcome, report = membership.job.outcome, membership.job.report
    runs = not outcome and membership.round.phase is RoundPhase.RUNNING
    return TrainingView(
        phase=outcome.value if outcome else membership.round.phase.value,
        reason=membership.job.reason if outcome else membership.round.record.reason,
        round=membership.round.number,
        world_size=membership.round.world_size,
        min_nodes=membership.elasticity.min_nodes,
        max_nodes=membership.elasticity.max_nodes,
        restarts=membership.job.restarts,
        max_restarts=membership.elasticity.max_restarts,
        step=max(steps, default=reported.step),
        total_steps=reported.total,
        loss=reported.loss,
        throughput=speed_text(reported.speed) if runs else "",
        resumed=reported.resumed,
        source=reported.source,
        failure=None if report is None else failure_view(report, group=membership.name),
        worker_failures=dict(reported.failures),
        nodes=nodes,
        group=membership.name,
    )


def _node_view(node: NodeEntry, membership: Membership) -> NodeView:
    info, usage, progress = node.record.info, node.usage or Usage(), node.progress or Progress()
    current = membership.round
    waiting = node.id not in current.members and current.phase is not RoundPhase.GATHERING
    return NodeView(
        name=info.name,
        role=info.role,
        rank=node.record.slot,
        host=info.host,
        pid=info.pid,
        member=node.id,
        group=membership.name,
        state=MemberState.SPARE.value if waiting else node.state.value,
        away=not node.connected,
        workers=info.nproc,
        round=None if waiting else current.number,
        step=progress.step,
        loss=progress.loss,
        cpu=cpu_text(usage.cpu),
        memory=memory_text(usage.memory),
        worker_pids=node.workers.pids if node.workers else (),
        ranks=tuple(map(_rank_view, node.ranks)),
    )


def _rank_view(progress: RankProgress) -> RankView:
    return RankView(
        rank=progress.rank,
        local_rank=progress.local_rank,
        step=progress.step,
        age=progress.age,
        step_time=progress.step_time,
    )
