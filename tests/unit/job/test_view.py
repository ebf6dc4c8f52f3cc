"""One view of a job from its controller's status and its master's trainings."""

from __future__ import annotations

import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from resile.job.node import LIVE, NodePhase
from resile.job.spec.role import NodeResources
from resile.job.status import (
    Condition,
    ConditionStatus,
    ConditionType,
    JobPhase,
    JobStatus,
)
from resile.job.training import TrainingView
from resile.job.view import MAIN, VIEW_VERSION, JobView, combine, ended_view, headline
from resile.wire.messages import Usage
from tests.unit.control.builders import START
from tests.unit.job.trainings import FAILURE, member, rank, training


def condition(kind: ConditionType, status: ConditionStatus, message: str) -> Condition:
    return Condition(
        type=kind, status=status, reason="R", message=message, last_transition_time=START
    )


def test_a_node_shows_what_its_controller_and_its_master_know() -> None:
    limits = NodeResources(limits={"memory": "1Gi"})
    status = JobStatus(phase=JobPhase.RUNNING, nodes=(rank(0, restarts=2, resources=limits),))
    view = combine(
        "train",
        status=status,
        trainings={MAIN: training(member("train-worker-0"))},
        usage={"train-worker-0": Usage(cpu=0.5)},
        now=1.0,
    )
    (node,) = view.nodes
    assert (node.id, node.rank, node.restarts, node.memory_limit) == (0, 0, 2, "1Gi")
    assert (node.state, node.pid, node.round, node.step, node.loss) == ("running", 123, 4, 7, 0.5)
    assert (node.cpu, node.memory) == ("0.5", "")


def test_a_spare_is_in_no_round() -> None:
    status = JobStatus(nodes=(rank(0),))
    one = training(member("train-worker-0", state="spare"))
    (node,) = combine("train", status=status, trainings={MAIN: one}, now=1.0).nodes
    assert (node.state, node.round) == ("spare", None)


def test_a_node_that_ended_shows_nothing_of_a_master_that_has_not_noticed() -> None:
    status = JobStatus(nodes=(rank(0, NodePhase.FAILED),))
    one = training(member("train-worker-0"))
    (node,) = combine("train", status=status, trainings={MAIN: one}, now=1.0).nodes
    assert (node.phase, node.state, node.step) == ("Failed", "", None)


def test_without_a_controller_the_masters_nodes_are_shown() -> None:
    view = combine(
        "train", status=None, trainings={MAIN: training(member("n0"), member("n1"))}, now=1.0
    )
    assert [node.name for node in view.nodes] == ["n0", "n1"]
    assert (view.phase, view.message) == ("running", "first round")


def test_the_headline_says_why_the_job_is_in_its_phase() -> None:
    running = condition(ConditionType.RUNNING, ConditionStatus.TRUE, "2 of 2 nodes are running")
    assert headline(JobStatus(phase=JobPhase.RUNNING, conditions=(running,))) == running.message
    short = condition(ConditionType.RUNNING, ConditionStatus.FALSE, "too few")
    assert headline(JobStatus(phase=JobPhase.RESTARTING, conditions=(short,))) == "too few"
    failed = condition(ConditionType.FAILED, ConditionStatus.TRUE, "it broke")
    assert headline(JobStatus(phase=JobPhase.FAILED, conditions=(short, failed))) == "it broke"


def test_before_it_ran_the_headline_is_what_the_first_node_waits_for() -> None:
    waiting = rank(0, NodePhase.PENDING, message="no room")
    assert headline(JobStatus(phase=JobPhase.PENDING, nodes=(waiting,))) == (
        "train-worker-0: no room"
    )
    assert headline(JobStatus()) == ""


def test_in_the_last_view_nothing_runs_any_more() -> None:
    status = JobStatus(nodes=(rank(0), rank(1, NodePhase.SUCCEEDED), rank(2, NodePhase.PENDING)))
    view = combine(
        "train", status=status, trainings={MAIN: training(member("train-worker-0"))}, now=1.0
    )
    last = ended_view(view, "Interrupted")
    assert [node.phase for node in last.nodes] == ["Stopped", "Succeeded", "Stopped"]
    assert last.nodes[0].message == "interrupted while it was running"
    assert not last.nodes[0].state
    assert last.ended == "Interrupted"


def test_a_node_counts_its_replacements_and_its_workers_failures() -> None:
    """Also once it has left: the master remembers."""
    ranks = (rank(0, restarts=1), rank(1, NodePhase.SUCCEEDED), rank(2))
    status = JobStatus(phase=JobPhase.RUNNING, nodes=ranks)
    failures = {"train-worker-0": 3, "train-worker-1": 2}
    one = training(member("train-worker-0", worker_pids=(7, 8)), worker_failures=failures)
    view = combine("train", status=status, trainings={MAIN: one}, now=1.0)
    assert [node.restarts for node in view.nodes] == [4, 2, 0]
    assert [node.worker_pids for node in view.nodes] == [(7, 8), (), ()]


def test_a_job_that_was_interrupted_does_not_say_that_nodes_are_running() -> None:
    running = condition(ConditionType.RUNNING, ConditionStatus.TRUE, "2 of 2 nodes are running")
    status = JobStatus(phase=JobPhase.RUNNING, nodes=(rank(0), rank(1)), conditions=(running,))
    one = training(member("train-worker-0", worker_pids=(7,)))
    view = combine("train", status=status, trainings={MAIN: one}, now=1.0)
    assert view.message == "2 of 2 nodes are running"
    over = ended_view(view, "Interrupted")
    assert over.message == "2 of 2 nodes were ended with it"
    assert all(node.worker_pids == () for node in over.nodes)


def test_nodes_of_other_groups_show_their_own_groups_training() -> None:
    status = JobStatus(phase=JobPhase.RUNNING, nodes=(rank(0), rank(1)))
    alone = training(
        member("train-worker-1"), round=9, group="worker/1", worker_failures={"train-worker-1": 2}
    )
    view = combine(
        "train",
        status=status,
        trainings={MAIN: training(member("train-worker-0")), "worker/1": alone},
        now=1.0,
    )
    assert [(node.round, node.restarts) for node in view.nodes] == [(4, 0), (9, 2)]
    assert view.groups == {"worker/1": alone}
    without = combine("train", status=None, trainings={"g": alone}, now=1.0)
    assert [node.name for node in without.nodes] == ["train-worker-1"]


# --- the whole of it ----------------------------------------------------------------------------


def test_a_view_reads_back_from_json_and_says_its_version() -> None:
    failed = training(member("train-worker-0"), failure=FAILURE)
    view = combine("train", status=JobStatus(nodes=(rank(0),)), trainings={MAIN: failed}, now=1.0)
    assert view.failures == (FAILURE,)
    data = msgspec.json.encode(view)
    assert json.loads(data)["apiVersion"] == VIEW_VERSION
    assert msgspec.json.decode(data, type=JobView) == view


def test_the_manifest_is_understood_once_or_not_at_all() -> None:
    manifest = {
        "apiVersion": "resile.dev/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": "train"},
        "spec": {"roles": {"worker": {"script": "train.py", "replicas": 2}}},
    }
    view = JobView(name="train", phase="", manifest=manifest)
    assert view.spec is not None
    assert list(view.spec.roles) == ["worker"]
    assert view.job is view.job
    for nothing in (None, {}, {"spec": {"roles": 7}}):
        assert JobView(name="train", phase="", manifest=nothing).spec is None


def test_unknown_fields_are_ignored() -> None:
    data = b'{"name": "a", "phase": "Running", "news": 1, "nodes": [{"name": "n", "more": []}]}'
    view = msgspec.json.decode(data, type=JobView)
    assert [node.name for node in view.nodes] == ["n"]


NAMES = st.sampled_from([f"train-worker-{n}" for n in range(6)])
PHASES = st.sampled_from(list(NodePhase))
STATES = st.sampled_from(["idle", "ready", "running", "spare", "failed", "succeeded"])


@st.composite
def trainings(draw: st.DrawFn) -> dict[str, TrainingView]:
    groups = draw(st.lists(st.sampled_from([MAIN, "eval", "worker/1"]), unique=True))
    names = draw(st.lists(NAMES, unique=True))
    shares: dict[str, list[str]] = {group: [] for group in groups}
    for name in names if groups else ():
        shares[draw(st.sampled_from(groups))].append(name)
    return {
        group: training(*(member(name, state=draw(STATES)) for name in share), group=group)
        for group, share in shares.items()
    }


@given(
    ranks=st.lists(st.tuples(st.integers(0, 5), PHASES), unique_by=lambda one: one[0]),
    seen=trainings(),
    unlisted=st.integers(0, 3),
)
def test_every_node_of_the_status_is_shown_once(
    ranks: list[tuple[int, NodePhase]], seen: dict[str, TrainingView], unlisted: int
) -> None:
    status = JobStatus(nodes=tuple(rank(*one) for one in ranks), unlisted=unlisted)
    view = combine("train", status=status, trainings=seen, now=1.0)
    shown = [node.name for node in view.nodes]
    assert shown[: len(ranks)] == [one.name for one in status.nodes]
    assert len(shown) == len(set(shown))
    joined = {name for one in seen.values() for name in one.nodes}
    if unlisted:
        assert set(shown) == joined | {one.name for one in status.nodes}
    else:
        assert len(shown) == len(ranks)
    groups = {name: group for group, one in seen.items() for name in one.nodes}
    for node in view.nodes:
        assert node.group == (groups.get(node.name, "") if node.state else "")
        assert node.state == "" or node.phase in {phase.value for phase in LIVE}
