"""What a job's master answers over HTTP: publishing, steering, logs; and over its own death."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from resile.job.elasticity import Elasticity
from resile.job.node import NodePhase
from resile.job.status import DecisionNote, JobPhase, JobStatus, NodeStatus, RoleStatus
from resile.platform.local.masterprocess import MasterProcess
from resile.wire.auth import TOKEN_FILE_VARIABLE, TOKEN_VARIABLE, write_private
from resile.wire.errors import RefusedByPeer, Unreachable
from resile.wire.inquiry import Inquiry
from resile.wire.messages import Usage
from resile.wire.views import Publication
from tests.local.up.ups import manifest

TOKEN = "a-token-of-the-tests"
MANIFEST = manifest(
    "asked",
    {
        "worker": {"command": ["train"], "replicas": {"min": 2, "max": 6}, "nodeUnit": 2},
        "ps": {"command": ["serve"]},
    },
)


def publication(*notes: str, first: int = 0, phase: JobPhase = JobPhase.RUNNING) -> Publication:
    """What a controller would say."""
    now = datetime.now(timezone.utc)
    return Publication(
        manifest=MANIFEST,
        status=JobStatus(phase=phase, roles={"worker": RoleStatus(wanted=4)}),
        first_note=first,
        notes=tuple(DecisionNote(time=now, reason="Noted", sentence=note) for note in notes),
    )


@pytest_asyncio.fixture
async def master(tmp_path: Path) -> AsyncIterator[MasterProcess]:
    """A master of a whole job, as `resile up` starts it."""
    (tmp_path / "logs").mkdir()
    write_private(tmp_path / "token", TOKEN)
    environment = {k: v for k, v in os.environ.items() if k != TOKEN_VARIABLE}
    started = MasterProcess(
        tmp_path,
        job="asked",
        elasticity=Elasticity(),
        environment={**environment, TOKEN_FILE_VARIABLE: str(tmp_path / "token")},
    )
    await started.start()
    try:
        yield started
    finally:
        await started.stop()


@pytest.fixture
def inquiry(master: MasterProcess) -> Inquiry:
    """The way to ask it."""
    return Inquiry(master.endpoint, TOKEN)


def told(inquiry: Inquiry) -> list[tuple[str, str]]:
    return [(event.kind, event.text) for event in inquiry.events()]


async def kill_and_start_again(master: MasterProcess) -> None:
    port = master.endpoint.port
    assert master.pid is not None
    os.kill(master.pid, signal.SIGKILL)
    await master.start()
    assert master.endpoint.port == port


async def test_a_killed_master_forgets_nothing_that_it_has_answered(
    master: MasterProcess, inquiry: Inquiry
) -> None:
    inquiry.publish(publication("one", "two"))
    inquiry.scale({"worker": 2})
    inquiry.suspend()
    await kill_and_start_again(master)
    view = inquiry.view()
    assert view.suspend is True
    inquiry.resume()
    assert inquiry.view().suspend is False
    assert view.wishes == {"worker": 2}
    assert view.status == publication().status
    assert view.manifest == MANIFEST
    assert not view.deleting
    inquiry.delete()
    await kill_and_start_again(master)
    assert inquiry.view().deleting
    assert [event for event in told(inquiry) if event[0] != "MasterReturned"] == [
        ("Noted", "one"),
        ("Noted", "two"),
        ("ScaleRequested", "a user asked for worker=2"),
        ("SuspendRequested", "a user asked for the job to be suspended"),
        ("ResumeRequested", "a user asked for the job to be resumed"),
        ("DeletionRequested", "a user asked for the job to be deleted"),
    ]


async def test_decisions_that_are_told_again_are_heard_once(inquiry: Inquiry) -> None:
    inquiry.publish(publication("one", "two"))
    inquiry.publish(publication("one", "two", "three"))
    inquiry.publish(publication("three", "four", first=2))
    assert [text for _, text in told(inquiry)] == ["one", "two", "three", "four"]


async def test_who_waits_for_events_is_answered_when_one_happens(inquiry: Inquiry) -> None:
    inquiry.publish(publication("one"))
    last = inquiry.events()[-1].seq
    assert inquiry.events(since=last, wait=0.05) == []
    waiting = asyncio.create_task(asyncio.to_thread(inquiry.events, since=last, wait=50))
    await asyncio.to_thread(inquiry.publish, publication("two", first=1))
    events = await asyncio.wait_for(waiting, 30)
    assert [event.text for event in events] == ["two"]


async def test_a_master_that_is_told_to_go_does_not_wait_for_who_waits_for_events(
    master: MasterProcess, inquiry: Inquiry
) -> None:
    waiting = asyncio.create_task(asyncio.to_thread(inquiry.events, since=0, wait=50))
    await asyncio.sleep(0)
    await master.stop()
    with suppress(Unreachable):  # it may have gone before it was asked
        assert await asyncio.wait_for(waiting, 30) == []


REFUSED_SIZES: tuple[tuple[dict[str, Any], str], ...] = (
    ({"worker": 8}, "role worker may have 2 to 6 nodes, not 8"),
    ({"worker": 0}, "role worker may have 2 to 6 nodes, not 0"),
    ({"worker": 3}, "role worker grows in units of 2 nodes"),
    ({"trainer": 1}, "there is no role 'trainer'; there are worker, ps"),
    ({}, "name at least one role"),
    ({"worker": "4"}, "the request cannot be read: Expected `int`, got `str`"),
    ({"worker": 4, "ps": 2}, "role ps may have 1 to 1 nodes, not 2"),
)


async def test_a_size_that_the_job_cannot_have_is_refused_with_a_sentence(
    inquiry: Inquiry,
) -> None:
    inquiry.publish(publication())
    for sizes, sentence in REFUSED_SIZES:
        with pytest.raises(RefusedByPeer, match=re.escape(sentence)):
            inquiry.scale(sizes)
    assert inquiry.view().wishes == {}


async def test_a_job_that_is_over_or_has_no_controller_cannot_be_scaled(inquiry: Inquiry) -> None:
    with pytest.raises(RefusedByPeer, match="has no controller"):
        inquiry.scale({"worker": 2})
    with pytest.raises(RefusedByPeer, match="has no controller"):
        inquiry.delete()
    inquiry.publish(publication(phase=JobPhase.SUCCEEDED))
    with pytest.raises(RefusedByPeer, match="the job is over"):
        inquiry.scale({"worker": 2})
    inquiry.publish(publication())
    inquiry.delete()
    with pytest.raises(RefusedByPeer, match="is being deleted"):
        inquiry.scale({"worker": 2})


async def test_everything_needs_the_token(master: MasterProcess) -> None:
    stranger = Inquiry(master.endpoint, "another-token-altogether")
    asks = (
        stranger.view,
        stranger.events,
        stranger.log_files,
        stranger.delete,
        lambda: stranger.log("asked-worker-0"),
        lambda: stranger.scale({"worker": 2}),
        lambda: stranger.publish(publication()),
        lambda: stranger.tell_usage({"n": Usage(cpu=1.0)}),
    )
    for ask in asks:
        with pytest.raises(RefusedByPeer, match="a valid job token is required"):
            ask()


async def test_logs_are_read_piece_by_piece(inquiry: Inquiry, tmp_path: Path) -> None:
    text = b"".join(b"line %d\n" % number for number in range(60_000))
    (tmp_path / "logs" / "asked-worker-10.log").write_bytes(text)
    (tmp_path / "logs" / "asked-worker-9.log").write_bytes(b"")
    assert [(file.node, file.size) for file in inquiry.log_files()] == [
        ("asked-worker-9", 0),
        ("asked-worker-10", len(text)),
    ]
    read = b""
    while piece := inquiry.log("asked-worker-10", offset=len(read)):
        read += piece
    assert read == text


async def test_nothing_but_the_nodes_logs_can_be_read(inquiry: Inquiry, tmp_path: Path) -> None:
    (tmp_path / "token.log").write_text("secret")
    (tmp_path / "logs" / ".hidden.log").write_text("secret")
    (tmp_path / "logs" / "linked.log").symlink_to(tmp_path / "token")
    elsewhere = ("../token", "..", "", ".hidden", "/etc/passwd", "a/b", "a\\b", "linked", "a\x00b")
    for name in elsewhere:
        with pytest.raises(RefusedByPeer, match="there is no output of a node"):
            inquiry.log(name)
    assert "linked" not in [file.node for file in inquiry.log_files()]


async def test_what_nodes_use_is_shown_with_the_node(inquiry: Inquiry) -> None:
    node = NodeStatus(role="worker", rank=0, phase=NodePhase.RUNNING, id=0, name="asked-worker-0")
    status = JobStatus(phase=JobPhase.RUNNING, nodes=(node,))
    inquiry.publish(Publication(manifest=MANIFEST, status=status))
    inquiry.tell_usage({"asked-worker-0": Usage(cpu=1.5, memory=1024)})
    (shown,) = inquiry.view().nodes
    assert (shown.cpu, shown.memory) == ("1.5", "1Ki")
