"""When a pod that the API server rejected is tried again."""

from __future__ import annotations

from msgspec import structs

from resile.job.node import Node, NodePhase
from resile.job.status import JobStatus, NodeStatus
from resile.operator.observe.nodes import RejectedPod, Retryability
from resile.operator.reconcile_state import ReconcileState


def refusal(number: int, outlook: Retryability) -> RejectedPod:
    node = Node(role="worker", rank=number, id=number, name=f"train-worker-{number}")
    return RejectedPod(node, "Why", "spec.containers[0].image: Invalid value", outlook)


def status(generation: int) -> JobStatus:
    ranks = tuple(
        NodeStatus(role="worker", rank=number, id=number, phase=NodePhase.PENDING)
        for number in range(3)
    )
    return JobStatus(nodes=ranks, observed_generation=generation)


def memory() -> ReconcileState:
    known = ReconcileState("uid")
    for number, outlook in enumerate(Retryability):
        known.refused[number] = refusal(number, outlook)
    known.refused_generation = 4
    known.offer_again_at = 10.0
    return known


LATER, NEVER = (
    list(Retryability).index(Retryability.LATER),
    list(Retryability).index(Retryability.NEVER),
)


def test_what_is_wrong_as_it_is_waits_for_another_manifest() -> None:
    assert memory().offers(status(4), now=9.0) == set()
    assert memory().offers(status(4), now=1e9) == {LATER}
    assert memory().offers(status(5), now=9.0) == {NEVER}
    assert memory().offers(status(5), now=1e9) == {LATER, NEVER}


def test_what_is_wrong_is_said_of_the_manifest_that_it_is_wrong_with() -> None:
    said = memory().why_invalid(4)
    assert said.startswith("spec.roles.worker: the API server rejects its pods: spec.containers[0]")
    assert memory().why_invalid(5) == ""


def test_nodes_that_were_made_after_all_are_not_offered_again() -> None:
    known = memory()
    known.drop_created({LATER}, status(5))
    assert known.offers(status(5), now=1e9) == {NEVER}
    seen = tuple(structs.replace(rank, seen=True) for rank in status(5).nodes)
    known.drop_created(set(), structs.replace(status(5), nodes=seen))
    assert known.refused == {}


def test_nodes_that_are_not_wanted_any_more_are_forgotten() -> None:
    known = memory()
    known.offers(JobStatus(observed_generation=5), now=1e9)
    assert known.refused == {}
