"""The training as status shows it, read off a group's membership."""

from __future__ import annotations

from resile.master.membership import Membership
from resile.master.records import RoundPhase
from resile.master.service import MasterService
from resile.wire.messages import RankProgress
from resile.wire.throughput import speed_text
from resile.wire.views import JobView, NodeView, RankView


def views(service: MasterService) -> dict[str, JobView]:
    """The training of every group, by name; the main one's is empty."""
    return {group.name: view(service, group) for group in service.groups}


def view(service: MasterService, group: Membership | None = None) -> JobView:
    """What there is to see of a group now; of the main one, if none is given."""
    membership = group or service.membership
    members = set(membership.round.members)
    nodes = []
    for node in membership.roster:
        info = node.record.info
        waiting = node.id not in members and membership.round.phase is not RoundPhase.GATHERING
        nodes.append(
            NodeView(
                id=node.id,
                name=info.name,
                host=info.host,
                pid=info.pid,
                role=info.role,
                rank=node.record.slot,
                state="spare" if waiting else node.state.value,
                connected=node.connected,
                workers=info.nproc,
                progress=node.progress,
                usage=node.usage,
                worker_pids=node.workers.pids if node.workers else (),
                ranks=tuple(map(_rank_view, node.ranks)),
            )
        )
    reported = service.reported[membership.name]
    steps = [n.progress.step for n in nodes if n.progress and n.progress.step is not None]
    outcome = membership.job.outcome
    runs = not outcome and membership.round.phase is RoundPhase.RUNNING
    return JobView(
        job=membership.job.job,
        phase=outcome.value if outcome else membership.round.phase.value,
        round=membership.round.number,
        reason=membership.job.reason if outcome else membership.round.record.reason,
        min_nodes=membership.elasticity.min_nodes,
        max_nodes=membership.elasticity.max_nodes,
        world_size=membership.round.world_size,
        restarts=membership.job.restarts,
        max_restarts=membership.elasticity.max_restarts,
        step=max(steps, default=reported.step),
        nodes=nodes,
        report=membership.job.report,
        throughput=speed_text(reported.speed) if runs else "",
        total=reported.total,
        loss=reported.loss,
        resumed=reported.resumed,
        source=reported.source,
        failures=dict(reported.failures),
        group=membership.name,
    )


def _rank_view(told: RankProgress) -> RankView:
    return RankView(
        rank=told.rank,
        local_rank=told.local_rank,
        step=told.step,
        age=told.age,
        step_time=told.step_time,
    )
