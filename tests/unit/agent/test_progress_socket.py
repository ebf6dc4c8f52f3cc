"""Progress reports: accepted senders and accepted content."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from resile.agent.progress import ProgressSocket
from resile.train.progress import report
from resile.wire.messages import Progress

NOBODY = 65534

SEND = """
import json, os, socket, sys
user, name, count = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
os.setuid(user)
line = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
for _ in range(count):
    try:
        line.sendto(json.dumps({"round": 1, "step": 999}).encode(), "\\0" + name[1:])
    except OSError:
        pass
"""


@pytest.fixture
async def door() -> AsyncIterator[ProgressSocket]:
    made = ProgressSocket()
    made.new_round(1)
    yield made
    made.close()


def send(door: ProgressSocket, data: bytes) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.sendto(data, "\0" + door.name[1:])


def step(number: object, round: object = 1) -> bytes:
    return json.dumps({"round": round, "step": number}).encode()


async def heard(door: ProgressSocket, worker: int = os.getsid(0)) -> Progress | None:
    """The latest accepted progress, after everything that was sent is read."""
    for _ in range(10):
        await asyncio.sleep(0)
    return door.latest({worker})


async def test_a_worker_is_heard(door: ProgressSocket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESILE_PROGRESS_SOCKET", door.name)
    monkeypatch.setenv("RESILE_ROUND", "1")
    report(7, loss=0.5)
    assert await heard(door) == Progress(step=7, loss=0.5)
    report(8, loss=float("nan"))
    assert await heard(door) == Progress(step=8)


async def test_a_process_that_is_no_worker_is_not_heard(door: ProgressSocket) -> None:
    send(door, step(7))
    assert await heard(door, worker=1) is None


async def test_an_earlier_step_stays_while_nothing_new_is_heard(door: ProgressSocket) -> None:
    send(door, step(7))
    assert await heard(door) == Progress(step=7)
    door.new_round(2)
    assert door.latest(()) == Progress(step=7)
    send(door, step(9, round=1))
    assert await heard(door) == Progress(step=7)


@pytest.mark.parametrize(
    "data",
    [
        step(2**70),
        step(-1),
        step(1, round=2**70),
        b'{"round": 1, "step": ' + b"[" * 4000,
        b"[" * 4096,
        b"\xff",
        b'{"round": 1, "step": 3, "loss": "' + b"x" * 5000,
        b"",
    ],
)
async def test_what_makes_no_sense_is_not_heard(
    door: ProgressSocket, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    send(door, data)
    assert await heard(door) is None
    assert not caplog.records


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
async def test_another_user_is_refused_and_cannot_keep_the_agent_busy(
    door: ProgressSocket, caplog: pytest.LogCaptureFixture
) -> None:
    # In the session of a worker, by its process id: the user is checked first.
    sender = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SEND, str(NOBODY), door.name, "1000", stdout=subprocess.DEVNULL
    )
    while "ignored a progress report from user 65534" not in caplog.text:
        await asyncio.sleep(0.01)
    assert door.latest({os.getsid(0)}) is None
    sender.kill()
    await sender.wait()


@pytest.mark.parametrize("number", [2**70, -1])
def test_a_step_that_is_none_is_refused_where_it_is_reported(number: int) -> None:
    with pytest.raises(ValueError, match=r"report\(step="):
        report(number)
