"""Which pods the scheduler may place, and when."""

from __future__ import annotations

from typing import Any

from resile.job.manifest.parse import job_from_data
from resile.job.node import Node, NodePhase
from resile.job.spec.job import ElasticJob
from resile.job.status import JobStatus, NodeStatus
from resile.operator.build.gang import GATE, GATED, build_pod_group, gates_to_lift
from resile.operator.build.labels import node_of
from resile.operator.build.pods import build_node_pod
from tests.unit.operator.build.jobs import UID, order

PENDING, RUNNING = NodePhase.PENDING, NodePhase.RUNNING
SUCCEEDED, FAILED, WAITING = NodePhase.SUCCEEDED, NodePhase.FAILED, NodePhase.WAITING


def gang(roles: dict[str, dict[str, Any]], policy: str = "SchedulingGates") -> ElasticJob:
    described = {name: {"script": "train.py", "image": "i", **role} for name, role in roles.items()}
    return job_from_data(
        {
            "apiVersion": "resile.dev/v1alpha1",
            "kind": "ElasticJob",
            "metadata": {"name": "digits", "namespace": "ml"},
            "spec": {"roles": described, "gangScheduling": policy},
        }
    )


class Placed:
    """A gang whose ranks are in some phases: the live ones have pods, still gated if pending."""

    def __init__(self, job: ElasticJob, **ranks: list[NodePhase]) -> None:
        self.job = job
        slots = [
            (role, rank, phase)
            for role, phases in ranks.items()
            for rank, phase in enumerate(phases)
        ]
        self.ranks = [
            NodeStatus(role=role, rank=rank, phase=phase, id=number, name=f"digits-{role}-{rank}")
            for number, (role, rank, phase) in enumerate(slots)
        ]
        self.pods = [self._pod(rank) for rank in self.ranks if rank.phase in (PENDING, RUNNING)]

    def _pod(self, rank: NodeStatus) -> dict[str, Any]:
        assert rank.node is not None
        pod = build_node_pod(self.job, order(node=rank.node), uid=UID, environment=[])
        if rank.phase is RUNNING:
            pod["spec"]["schedulingGates"] = []
        return pod

    def lifted(self) -> set[str]:
        return set(gates_to_lift(self.job, JobStatus(nodes=tuple(self.ranks)), self.pods))


def names(role: str, *ranks: int) -> set[str]:
    return {f"digits-{role}-{rank}" for rank in ranks}


def test_pods_are_held_back_until_as_many_as_the_job_needs_exist() -> None:
    job = gang({"worker": {"replicas": {"min": 2, "max": 4}}})
    assert Placed(job, worker=[PENDING, WAITING]).lifted() == set()
    assert Placed(job, worker=[PENDING, PENDING, WAITING]).lifted() == names("worker", 0, 1)


def test_every_role_needs_its_own() -> None:
    job = gang({"ps": {}, "worker": {"replicas": {"min": 1, "max": 4}}})
    assert Placed(job, ps=[WAITING], worker=[PENDING, PENDING]).lifted() == set()
    both = Placed(job, ps=[PENDING], worker=[PENDING])
    assert both.lifted() == names("ps", 0) | names("worker", 0)


def test_only_our_own_gate_is_lifted_and_only_where_it_is() -> None:
    placed = Placed(gang({"worker": {"replicas": 2}}), worker=[PENDING, RUNNING])
    assert GATED in placed.pods[0]["spec"]["schedulingGates"]
    placed.pods[0]["spec"]["schedulingGates"].append({"name": "another"})
    status = JobStatus(nodes=tuple(placed.ranks))
    assert GATE not in str(gates_to_lift(placed.job, status, placed.pods))
    assert gates_to_lift(placed.job, status, placed.pods) == {
        "digits-worker-0": [{"name": "another"}]
    }


def test_a_pod_that_has_ended_or_is_being_deleted_does_not_count_and_is_left_alone() -> None:
    for change in (
        {"status": {"phase": "Failed"}},
        {"metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z"}},
    ):
        placed = Placed(gang({"worker": {"replicas": 2}}), worker=[PENDING, PENDING])
        for part, fields in change.items():
            placed.pods[1].setdefault(part, {}).update(fields)
        assert placed.lifted() == set()


def test_a_pod_whose_rank_another_node_has_by_now_does_not_count() -> None:
    placed = Placed(gang({"worker": {"replicas": 2}}), worker=[PENDING, PENDING])
    stray = Node(role="worker", rank=1, id=99, name="digits-worker-99")
    placed.pods[1] = build_node_pod(placed.job, order(node=stray), uid=UID, environment=[])
    assert node_of(placed.pods[1]) == stray
    assert placed.lifted() == set()


def test_a_role_that_waits_for_another_is_not_waited_for() -> None:
    job = gang({"ps": {"replicas": 2}, "worker": {"replicas": 2, "dependsOn": ["ps"]}})
    assert Placed(job, ps=[PENDING], worker=[WAITING, WAITING]).lifted() == set()
    first = Placed(job, ps=[PENDING, PENDING], worker=[WAITING, WAITING])
    assert first.lifted() == names("ps", 0, 1)


def test_once_the_others_run_the_pods_of_a_role_wait_for_each_other() -> None:
    job = gang({"ps": {}, "worker": {"replicas": 2, "dependsOn": ["ps"]}})
    assert Placed(job, ps=[RUNNING], worker=[PENDING, WAITING]).lifted() == set()
    assert Placed(job, ps=[RUNNING], worker=[PENDING, PENDING]).lifted() == names("worker", 0, 1)


def test_a_role_that_waits_again_does_not_hold_back_what_it_waits_for() -> None:
    job = gang({"ps": {}, "worker": {"replicas": 2, "dependsOn": ["ps"]}})
    lost = Placed(job, ps=[PENDING], worker=[RUNNING, PENDING])
    assert lost.lifted() == names("ps", 0)


def test_a_node_that_has_succeeded_counts_as_there() -> None:
    job = gang({"worker": {"replicas": 3}})
    assert Placed(job, worker=[SUCCEEDED, RUNNING, PENDING]).lifted() == names("worker", 2)
    assert Placed(job, worker=[SUCCEEDED, WAITING, PENDING]).lifted() == set()


def test_a_rank_that_was_given_up_for_good_holds_nothing_back() -> None:
    job = gang({"worker": {}, "evaluator": {}})
    assert Placed(job, worker=[PENDING], evaluator=[FAILED]).lifted() == names("worker", 0)


def test_but_one_whose_place_another_rank_takes_is_waited_for() -> None:
    job = gang({"worker": {"replicas": {"min": 2, "max": 3}}})
    assert Placed(job, worker=[PENDING, FAILED]).lifted() == set()
    assert Placed(job, worker=[PENDING, FAILED, PENDING]).lifted() == names("worker", 0, 2)


def test_a_role_that_may_be_empty_is_not_waited_for() -> None:
    job = gang({"worker": {"replicas": {"min": 0, "max": 2}}, "chief": {}})
    assert Placed(job, worker=[], chief=[PENDING]).lifted() == names("chief", 0)


def test_a_group_asks_for_as_many_as_the_job_needs_at_first() -> None:
    roles = {"worker": {"replicas": {"min": 3, "max": 5}}, "ps": {}}
    group = build_pod_group(gang(roles, "PodGroup"), uid=UID)
    assert group is not None
    assert group["spec"] == {"minMember": 4}
    labels = build_node_pod(gang(roles, "PodGroup"), order(), uid=UID, environment=[])["metadata"][
        "labels"
    ]
    assert labels["scheduling.x-k8s.io/pod-group"] == group["metadata"]["name"]
    assert build_pod_group(gang(roles, "None"), uid=UID) is None


def test_a_group_does_not_wait_for_roles_that_wait_for_others() -> None:
    roles = {"worker": {"replicas": 3, "dependsOn": ["ps"]}, "ps": {"replicas": 2}}
    group = build_pod_group(gang(roles, "PodGroup"), uid=UID)
    assert group is not None
    assert group["spec"] == {"minMember": 2}


def test_a_group_is_of_one_at_least() -> None:
    roles = {"worker": {"replicas": {"min": 0, "max": 2}}}
    group = build_pod_group(gang(roles, "PodGroup"), uid=UID)
    assert group is not None
    assert group["spec"] == {"minMember": 1}
