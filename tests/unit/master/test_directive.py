"""The directive: the settings of a job's controller apply from then on."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from resile.decoding import DecodeError, decode_json
from resile.job.elasticity import Elasticity
from resile.master.groups import Groups
from resile.master.membership import Membership
from resile.master.records import DIRECTIVES_KEY, DirectivesRecord, JobRecord
from resile.master.state import GroupState
from resile.wire.directive import Directive, GroupDirective
from resile.wire.messages import Hello, NodeInfo, Welcome

SIZES = Elasticity(min_nodes=1, max_nodes=4)


@pytest.fixture
def membership() -> Membership:
    return Membership(GroupState(JobRecord(job="train", elasticity=SIZES)))


@pytest.fixture
def groups(membership: Membership) -> Groups:
    return Groups(membership)


def directive(**more: Any) -> Directive:
    return Directive(**{"elasticity": SIZES, **more})


def join(membership: Membership) -> int:
    info = NodeInfo(name="n", host="h", address="a", nproc=1)
    hello = Hello(job="train", info=info, elasticity=membership.elasticity)
    node = membership.hello(hello, now=0.5)
    assert isinstance(node, int)
    return node


def test_sizes_that_are_changed_while_the_job_runs_count_from_then_on(
    groups: Groups, membership: Membership
) -> None:
    join(membership)
    larger = Elasticity(min_nodes=2, max_nodes=9, max_restarts=7)
    groups.follow(directive(elasticity=larger), now=1.0)
    assert membership.elasticity == larger
    (node,) = membership.nodes
    sent = [body for to, body in membership.pending_effects().sends if to == ("", node.id)]
    told = [body.elasticity for body in sent if isinstance(body, Welcome)]
    assert told[-1] == larger, "agents give signs of life at the pace that they know"
    story = [event.text for event in membership.effects.events]
    assert "min_nodes=2, max_nodes=9, max_restarts=7 from now on" in story[-1]


def test_in_a_suspended_job_nobody_is_waited_for(groups: Groups, membership: Membership) -> None:
    timeout = membership.elasticity.join_timeout
    node = join(membership)
    assert node == 0
    groups.follow(directive(resting=True, wanted_nodes=0), now=1.0)
    membership.tick(1.0 + 2 * timeout)
    assert membership.job.outcome is None
    assert membership.job.resting


def test_how_many_nodes_come_is_passed_on_while_the_job_lives(
    groups: Groups, membership: Membership
) -> None:
    groups.follow(directive(wanted_nodes=3), now=1.0)
    assert membership.job.wanted == 3
    groups.follow(directive(), now=2.0)
    assert membership.job.wanted == 3, "None says nothing"
    membership.stop("enough", now=3.0)
    groups.follow(directive(wanted_nodes=5), now=4.0)
    assert membership.job.wanted == 3, "a job that is over waits for nobody"


def test_what_is_wanted_of_other_groups_counts_in_them() -> None:
    groups = Groups(Membership(GroupState(JobRecord(job="train", elasticity=Elasticity()))))
    wanted = GroupDirective(elasticity=Elasticity(lease=9, independent=True), wanted_nodes=1)
    groups.follow(directive(groups={"worker/0": wanted}), now=1.0)
    assert groups.pending_effects().records[DIRECTIVES_KEY] == DirectivesRecord(
        groups={"worker/0": wanted}
    )
    groups.follow(directive(groups={"worker/0": wanted}), now=1.5)
    assert DIRECTIVES_KEY not in groups.pending_effects().records, "only what changes is written"
    info = NodeInfo(name="n", host="h", address="a", nproc=1)
    hello = Hello(job="train", info=info, elasticity=Elasticity(), group="worker/0")
    assert groups.hello(hello, now=2.0) == 0
    group = groups.get("worker/0")
    assert group is not None
    assert (group.elasticity, group.job.wanted) == (wanted.elasticity, 1)
    groups.follow(directive(resting=True), now=3.0)
    assert group.job.resting


@pytest.mark.parametrize(
    "wrong",
    [
        *({"groups": {name: {"elasticity": {}}}} for name in ("", "x" * 256, "two\nlines")),
        {"elasticity": {"min_nodes": 0}},
        {"elasticity": {"max_restarts": 10**30}},
        {"elasticity": {"lease": float("inf")}},
        {"wantedNodes": -1},
        {"holders": 10**30},
    ],
)
def test_a_directive_that_makes_no_sense_is_not_read(wrong: dict[str, Any]) -> None:
    told = {**msgspec.to_builtins(directive()), **wrong}
    with pytest.raises(DecodeError):
        decode_json(msgspec.json.encode(told), Directive)
