"""The exchange between a job's controller and its master, on every platform. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone

from resile.control.observed import INVALID_SPEC, UNSCHEDULABLE, GroupReport
from resile.job.addresses import Addresses
from resile.job.node import LIVE, NodePhase
from resile.job.spec.job import ElasticJob, JobSpec
from resile.job.status import JobStatus
from resile.job.training import TrainingPhase, TrainingView
from resile.job.view import MAIN
from resile.wire.directive import Directive, GroupDirective

__all__ = ["directive_for", "group_directives", "expected_nodes", "group_reports"]


_LONGEST_REASON = 1024
_OVER = frozenset({NodePhase.STOPPED, NodePhase.SUCCEEDED, NodePhase.FAILED})


def group_reports(
    seen: Mapping[str, TrainingView], spec: JobSpec, *, at: float
) -> dict[str, GroupReport]:
    """Return the master's results for groups whose training is over. ``at``: when they were seen,
    in Unix time."""
    trainings = {name: seen[name] for name in spec.worlds() if name in seen}
    if MAIN in seen:
        trainings[spec.main_group] = seen[MAIN]
    return {
        group: GroupReport(
            succeeded=training.phase == TrainingPhase.SUCCEEDED,
            reason=training.reason[:_LONGEST_REASON],
            at=datetime.fromtimestamp(at, timezone.utc),
        )
        for group, training in trainings.items()
        if training.over
    }


_NOT_SOON = frozenset({UNSCHEDULABLE, INVALID_SPEC})


def expected_nodes(job: ElasticJob, status: JobStatus, *, group: str | None = None) -> int | None:
    """Return how many nodes the rendezvous of a group can expect: those that run or are being
    started.

    A node that is unschedulable, or waits for a corrected manifest, may take hours, so the others
    should not wait for it. None if there is no rendezvous, or not now: the timeout for too few
    nodes must not start.
    """
    training = job.spec.worlds().get(job.spec.main_group if group is None else group, ())
    if not training or job.spec.suspend:
        return None
    coming = [
        rank
        for rank in status.nodes
        if rank.role in training
        and rank.phase in LIVE
        and not (rank.phase is NodePhase.PENDING and rank.reason in _NOT_SOON)
    ]
    return len(coming)


def directive_for(
    job: ElasticJob,
    status: JobStatus,
    *,
    holders: int | None = None,
    addresses: Addresses | None = None,
) -> Directive:
    """Return the directive for the job's master: the nodes to expect, and their addresses."""
    return Directive(
        elasticity=job.spec.elasticity(),
        wanted_nodes=expected_nodes(job, status),
        groups=group_directives(job, status),
        resting=job.spec.suspend,
        holders=holders,
        addresses=addresses,
    )


def group_directives(job: ElasticJob, status: JobStatus) -> dict[str, GroupDirective]:
    """Return the directives for every group but the main one, by the group's name on the wire.

    Nodes that each have a world of their own are included only once they will not come back:
    nothing needs to wait for them. The agents of the others report everything else.
    """
    spec = job.spec
    shared = {
        name: GroupDirective(
            elasticity=spec.elasticity(name),
            wanted_nodes=expected_nodes(job, status, group=name),
        )
        for name in spec.worlds()
        if name != spec.main_group
    }
    alone = {role for role in spec.roles if _works_alone(spec, role)}
    over = {
        spec.wire_group(rank.role, rank.rank): GroupDirective(
            elasticity=spec.solo_elasticity(), wanted_nodes=0
        )
        for rank in status.nodes
        if rank.role in alone and rank.phase in _OVER
    }
    return {**shared, **over}


def _works_alone(spec: JobSpec, role: str) -> bool:
    """Return whether each agent of the role is in a world of its own."""
    described = spec.roles[role]
    return spec.group_of(role) is None and bool(described.script or described.module)
