"""A status fits into an object of Kubernetes, whatever the number and state of the nodes."""

from __future__ import annotations

import base64
import random
import string
import zlib
from datetime import datetime, timedelta, timezone

import msgspec
import pytest
from msgspec.structs import replace

from resile.decoding import DecodeError
from resile.job import compact_status as module
from resile.job.compact_status import LISTED, SHOWN, compact, packed, unpacked
from resile.job.exits import ExitCause
from resile.job.limits import MAX_NODES, MAX_ROLES
from resile.job.node import Node, NodePhase
from resile.job.spec.role import NodeResources
from resile.job.status import (
    Condition,
    ConditionStatus,
    ConditionType,
    DecisionNote,
    JobStatus,
    NodeRequest,
    NodeStatus,
    RequestVerb,
    RoleStatus,
)

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
STATUS_AT_MOST = 800_000
"""Beside a manifest of 256 KiB, kubectl's copy of it and the record of who wrote which field, this
is within the 1.5 MiB of etcd."""

LARGEST_REQUEST = 1024**2
"""The largest request that a master reads."""


class Words:
    """Text that does not compress."""

    def __init__(self) -> None:
        self._random = random.Random(7)

    def __call__(self, length: int) -> str:
        letters = string.ascii_lowercase + string.digits
        return "".join(self._random.choices(letters, k=length))

    def moment(self) -> datetime:
        return NOW + timedelta(microseconds=self._random.randrange(10**12))


def rank(number: int, phase: NodePhase, words: Words, *, host: int) -> NodeStatus:
    return NodeStatus(
        role="worker",
        rank=number,
        id=number + 10**6,
        name=f"{'n' * 50}-worker-{number}",
        phase=phase,
        reason="Unschedulable",
        message=words(300),
        host=words(host),
        resources=NodeResources(requests={words(300): words(40)}, limits={"memory": "8Gi"}),
        restarts=number,
        spent=3,
        quick_crashes=1,
        memory="16Gi",
        last_end=ExitCause.ERROR,
        last_message=words(300),
        seen=True,
        asked_at=words.moment(),
        avoids=(words(60), words(60), words(60)) if number % 50 == 0 else (),
        started_at=words.moment(),
        ended_at=words.moment(),
    )


def worst(phase: NodePhase, *, nodes: int = MAX_NODES, host: int = 253) -> JobStatus:
    words = Words()
    ranks = tuple(rank(number, phase, words, host=host) for number in range(nodes))
    pending_requests = tuple(
        NodeRequest(
            node=Node(role="worker", rank=one.rank, id=one.rank, name=one.name),
            verb=RequestVerb.STOP,
            at=NOW,
        )
        for one in ranks
    )
    return JobStatus(
        nodes=ranks,
        pending_requests=pending_requests,
        roles={words(60): RoleStatus(wanted=9, next_serial=99) for _ in range(2 * MAX_ROLES)},
        decisions=tuple(
            DecisionNote(time=NOW, reason="Why", sentence=words(9999)) for _ in range(50)
        ),
        conditions=tuple(
            Condition(
                type=kind,
                status=ConditionStatus.TRUE,
                reason="Why",
                message=words(99_999),
                last_transition_time=NOW,
            )
            for kind in ConditionType
        ),
    )


@pytest.mark.parametrize("phase", NodePhase)
@pytest.mark.parametrize("host", [45, 253])
def test_the_worst_status_of_the_largest_job_fits(phase: NodePhase, host: int) -> None:
    status = compact(worst(phase, host=host))
    written = packed(status)
    assert len(msgspec.json.encode(written)) < STATUS_AT_MOST
    assert unpacked(msgspec.json.decode(msgspec.json.encode(written), type=JobStatus)) == status
    assert compact(status) == status


def test_of_a_large_job_only_nodes_that_are_not_well_are_listed() -> None:
    status = worst(NodePhase.RUNNING, nodes=LISTED + 1, host=9)
    unwell = [replace(one, phase=NodePhase.PENDING) for one in status.nodes[:3]]
    status = compact(replace(status, nodes=(*unwell, *status.nodes[3:])))
    written = packed(status)
    assert [one.rank for one in written.nodes] == [0, 1, 2]
    assert all(one.message for one in written.nodes)
    assert written.unlisted == LISTED - 2
    assert [one.message for one in status.nodes[3:]] == [""] * (LISTED - 2)
    assert all(one.host and one.started_at for one in status.nodes), "what decides is kept"
    assert len(packed(compact(worst(NodePhase.FAILED, nodes=999, host=9))).nodes) == SHOWN


def test_a_small_job_is_written_as_it_is() -> None:
    status = replace(worst(NodePhase.RUNNING, nodes=LISTED, host=9), conditions=(), decisions=())
    assert packed(compact(status)) == status


@pytest.mark.parametrize(
    "text",
    [
        "%%%",
        base64.b64encode(b"no zlib").decode(),
        base64.b64encode(zlib.compress(b"[]")).decode(),
        base64.b64encode(zlib.compress(b"{" * 99)).decode(),
        base64.b64encode(zlib.compress(b"{}" * 999)[:-4]).decode(),
    ],
)
def test_what_no_controller_packed_is_refused(text: str) -> None:
    with pytest.raises(DecodeError):
        unpacked(JobStatus(packed=text))


def test_nothing_is_unpacked_beyond_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "UNPACKED_AT_MOST", 1000)
    bomb = base64.b64encode(zlib.compress(b" " * 10**6)).decode()
    with pytest.raises(DecodeError, match="too large"):
        unpacked(JobStatus(packed=bomb))
