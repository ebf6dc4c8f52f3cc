"""The board: what a controller publishes is kept, what people ask is checked."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from resile.decoding import DecodeError, decode_json
from resile.job.elasticity import Elasticity
from resile.job.status import DecisionNote, JobPhase, JobStatus
from resile.master.board import Board, NoController, NotNow, Unusable, WrongSize
from resile.master.groups import Groups
from resile.master.membership import Membership
from resile.master.records import (
    BOARD_KEY,
    DIRECTIVES_KEY,
    BoardRecord,
    DirectivesRecord,
    JobRecord,
)
from resile.master.register import Register
from resile.wire.messages import Fence, Hello, NodeInfo, Welcome
from resile.wire.views import GroupDirective, Publication
from tests.unit.control.builders import START, job

WORKER = {"script": "train.py", "replicas": {"min": 1, "max": 4}}


@pytest.fixture
def membership() -> Membership:
    elasticity = job({"worker": WORKER}).spec.elasticity()
    return Membership(Register(JobRecord(job="train", elasticity=elasticity)))


@pytest.fixture
def board(membership: Membership) -> Board:
    return Board(Groups(membership), BoardRecord())


def publication(**more: Any) -> Publication:
    manifest = msgspec.to_builtins(job({"worker": WORKER}))
    described: dict[str, Any] = {"manifest": manifest, "status": JobStatus(phase=JobPhase.RUNNING)}
    return Publication(**{**described, **more})


def note(sentence: str, reason: str = "Noted") -> DecisionNote:
    return DecisionNote(time=START, reason=reason, sentence=sentence)


def join(membership: Membership) -> int:
    info = NodeInfo(name="n", host="h", address="a", nproc=1)
    hello = Hello(job="train", info=info, elasticity=membership.elasticity)
    node = membership.hello(hello, now=0.5)
    assert isinstance(node, int)
    return node


def story(membership: Membership) -> list[str]:
    return [event.text for event in membership.journal.since(0)]


def test_every_change_is_kept(board: Board, membership: Membership) -> None:
    for change in (
        lambda: board.publish(publication(), now=1.0),
        lambda: board.scale({"worker": 2}, now=2.0),
        lambda: board.delete(now=3.0),
    ):
        change()
        assert membership.instructions().records[BOARD_KEY] == board.record


def suspended(wish: bool) -> Publication:
    return publication(manifest=msgspec.to_builtins(job({"worker": WORKER}, suspend=wish)))


def test_sizes_that_are_changed_while_the_job_runs_count_from_then_on(
    board: Board, membership: Membership
) -> None:
    join(membership)
    larger = job({"worker": {**WORKER, "replicas": {"min": 2, "max": 9}}}, maxRestarts=7)
    board.publish(publication(manifest=msgspec.to_builtins(larger)), now=1.0)
    found = membership.elasticity
    assert (found.min_nodes, found.max_nodes, found.max_restarts) == (2, 9, 7)
    (node,) = membership.roster
    sent = [body for to, body in membership.instructions().sends if to == ("", node.id)]
    told = [body.elasticity for body in sent if isinstance(body, Welcome)]
    assert told[-1] == found, "agents give signs of life at the pace that they know"
    assert "min_nodes=2, max_nodes=9, max_restarts=7 from now on" in story(membership)[-1]


def test_a_wish_to_suspend_is_kept_and_told_once(board: Board, membership: Membership) -> None:
    board.publish(publication(), now=1.0)
    assert board.record.suspend is None, "the manifest counts"
    for wish in (True, False):
        board.suspend(wish, now=2.0)
        assert board.record.suspend is wish
        assert membership.instructions().records[BOARD_KEY] == board.record
        board.suspend(wish, now=3.0)
    assert story(membership) == [
        "a user asked for the job to be suspended",
        "a user asked for the job to be resumed",
    ]


def test_only_a_job_that_is_not_over_and_has_a_controller_is_suspended(board: Board) -> None:
    with pytest.raises(NoController, match="cannot be suspended"):
        board.suspend(True, now=1.0)
    board.publish(publication(status=JobStatus(phase=JobPhase.SUCCEEDED)), now=2.0)
    with pytest.raises(NotNow, match="it cannot be resumed any more"):
        board.suspend(False, now=3.0)


def test_in_a_suspended_job_nobody_is_waited_for(membership: Membership) -> None:
    board, patience = Board(Groups(membership), BoardRecord()), membership.elasticity.join_timeout
    membership.left(Fence(node=join(membership), round=0), "it was asked to", now=0.6)
    board.publish(suspended(True), now=1.0)
    membership.tick(1.0 + 2 * patience)
    assert membership.job.outcome is None
    board.publish(suspended(False), now=3 * patience)
    membership.tick(3.5 * patience)
    assert membership.job.outcome is None, "the wait begins when it is resumed"
    membership.tick(4 * patience + 1)
    assert "timed out" in membership.job.reason


def test_the_masters_own_verdict_is_not_told_twice(board: Board, membership: Membership) -> None:
    membership.stop("somebody said so", now=1.0)
    verdict = note("somebody said so", reason="JobFailed")
    board.publish(publication(notes=(note("one"), verdict)), now=2.0)
    assert story(membership)[-1] == "one"
    assert board.record.notes_told == 2


def test_how_many_nodes_come_is_passed_on_while_the_job_lives(
    board: Board, membership: Membership
) -> None:
    board.publish(publication(wanted_nodes=3), now=1.0)
    assert membership.job.wanted == 3
    board.publish(publication(), now=2.0)
    assert membership.job.wanted == 3, "None says nothing"


def test_a_wish_for_one_role_leaves_the_others(board: Board) -> None:
    board.publish(publication(), now=1.0)
    board.scale({"worker": 2}, now=2.0)
    board.scale({"worker": 3}, now=3.0)
    assert board.record.wishes == {"worker": 3}


def test_deletion_is_told_once(board: Board, membership: Membership) -> None:
    board.publish(publication(), now=1.0)
    board.delete(now=2.0)
    board.delete(now=3.0)
    assert len(story(membership)) == 1


@pytest.mark.parametrize(
    "unusable",
    [
        {"manifest": {}},
        {"manifest": {"kind": "ElasticJob"}},
        {"status": JobStatus(next_id=10**30)},
    ],
)
def test_what_cannot_be_understood_or_kept_changes_nothing(
    board: Board, membership: Membership, unusable: dict[str, Any]
) -> None:
    with pytest.raises(Unusable):
        board.publish(publication(notes=(note("one"),), **unusable), now=1.0)
    assert board.record == BoardRecord()
    assert membership.instructions().records == {}


def test_refusals_have_their_own_kinds(board: Board, membership: Membership) -> None:
    with pytest.raises(NoController):
        board.scale({"worker": 2}, now=1.0)
    board.publish(publication(), now=2.0)
    with pytest.raises(WrongSize):
        board.scale({"worker": 5}, now=3.0)
    membership.stop("enough", now=4.0)
    with pytest.raises(NotNow):
        board.scale({"worker": 2}, now=5.0)


def test_what_is_published_for_other_groups_counts_in_them() -> None:
    groups = Groups(Membership(Register(JobRecord(job="train", elasticity=Elasticity()))))
    board = Board(groups, BoardRecord())
    wanted = GroupDirective(elasticity=Elasticity(lease=9, independent=True), wanted_nodes=1)
    board.publish(publication(groups={"worker/0": wanted}), now=1.0)
    assert groups.instructions().records[DIRECTIVES_KEY] == DirectivesRecord(
        groups={"worker/0": wanted}
    )
    board.publish(publication(groups={"worker/0": wanted}), now=1.5)
    assert DIRECTIVES_KEY not in groups.instructions().records, "only what changes is written"
    info = NodeInfo(name="n", host="h", address="a", nproc=1)
    hello = Hello(job="train", info=info, elasticity=Elasticity(), group="worker/0")
    assert groups.hello(hello, now=2.0) == 0
    group = groups.get("worker/0")
    assert group is not None
    assert (group.elasticity, group.job.wanted) == (wanted.elasticity, 1)
    paused = suspended(True)
    board.publish(msgspec.structs.replace(paused, groups={}), now=3.0)
    assert group.job.resting


@pytest.mark.parametrize("name", ["", "x" * 256, "two\nlines"])
def test_the_name_of_a_published_group_is_a_name(name: str) -> None:
    told = msgspec.to_builtins(publication())
    told["groups"] = {name: {"elasticity": {}}}
    with pytest.raises(DecodeError):
        decode_json(msgspec.json.encode(told), Publication)
