"""Which nodes are known to be gone, on a virtual clock."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from resile.job.node import Node
from resile.kube.resources import KubeObject
from resile.operator.build.labels import master_labels, node_labels
from resile.operator.informers import DeletedPods

JOB = ("n", "digits")


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def departed(clock: Clock) -> DeletedPods:
    return DeletedPods(kept_for=60.0, clock=clock)


def pod(number: int, uid: str, *, job_uid: str = "job") -> KubeObject:
    node = Node(role="worker", rank=number, id=number, name=f"digits-worker-{number}")
    return {
        "metadata": {
            "namespace": "n",
            "name": node.name,
            "uid": uid,
            "labels": node_labels("digits", node),
            "ownerReferences": [{"uid": job_uid}],
        }
    }


def test_a_node_is_gone_when_its_pod_is(departed: DeletedPods) -> None:
    departed.changed(None, pod(5, "x"))
    departed.changed(pod(5, "x"), pod(5, "x"))
    assert departed.of(JOB, "job") == frozenset()
    departed.changed(pod(5, "x"), None)
    assert departed.of(JOB, "job") == {5}


def test_a_second_pod_under_the_same_id_does_not_bring_it_back(departed: DeletedPods) -> None:
    departed.changed(pod(5, "x"), None)
    departed.changed(None, pod(5, "y"))
    assert departed.of(JOB, "job") == {5}


def test_a_pod_in_whose_place_another_is_found_is_gone(departed: DeletedPods) -> None:
    departed.changed(pod(5, "x"), pod(5, "y"))
    assert departed.of(JOB, "job") == {5}


def test_a_pod_that_is_back_was_not_deleted(departed: DeletedPods) -> None:
    departed.changed(pod(5, "x"), None)
    departed.changed(None, pod(5, "x"))
    assert departed.of(JOB, "job") == frozenset()


def test_what_belonged_to_an_earlier_job_of_the_name_does_not_count(departed: DeletedPods) -> None:
    departed.changed(pod(5, "x", job_uid="earlier"), None)
    assert departed.of(JOB, "job") == frozenset()


def test_masters_and_pods_of_others_are_no_nodes(departed: DeletedPods) -> None:
    master = pod(0, "x")
    master["metadata"]["labels"] = master_labels("digits")
    stranger = pod(0, "y")
    stranger["metadata"]["labels"] = {}
    departed.changed(master, None)
    departed.changed(stranger, None)
    assert departed.of(JOB, "job") == frozenset()


def test_they_are_forgotten_after_a_while_counted_from_their_last_end(
    departed: DeletedPods, clock: Clock
) -> None:
    departed.changed(pod(5, "x"), None)
    clock.now += 30.0
    departed.changed(None, pod(5, "x"))
    departed.changed(pod(5, "x"), None)
    clock.now += 59.0
    assert departed.of(JOB, "job") == {5}
    clock.now += 1.0
    assert departed.of(JOB, "job") == frozenset()
