"""Steps reported by workers: datagrams on a Unix socket that the agent reads.

A worker sends a small JSON datagram and continues; if it is not read, it is dropped. The latest
reports go to the master with each lease renewal: per worker, to find slow ones, and for all workers
together, for people. The agent may read several reports at once if it was busy, so a short time
between two of them says little: steps are measured together until enough time has passed.

An abstract socket has no permissions: every user of the machine can write to it. So the kernel is
asked for the sender of each datagram, and only those of the node's own workers and of processes in
their sessions count. A flood of others takes no more than a small share of the agent's time.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import secrets
import socket
import struct
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Annotated

import msgspec

from resile.decoding import DecodeError, JsonDecoder
from resile.job.limits import MAX_WORKERS
from resile.wire.messages import Progress, RankProgress

__all__ = [
    "ProgressSocket",
    "StepPace",
    "first_step",
]


LEAST = 0.1
"""Shortest interval that is measured, in seconds: the agent reads reports many times a second."""

WEIGHT = 0.25
"""Weight of a new measurement against the average so far: a single slow step (a checkpoint, an
evaluation) moves it by a quarter, and a worker that has become slow shows after about five."""


@dataclass(frozen=True, kw_only=True)
class StepPace:
    """The steps of one worker in one round."""

    step: int
    stepped_at: float
    """When its last step was reported."""

    step_time: float | None = None
    """Seconds per step, smoothed; None until two steps were reported."""

    measured_step: int
    measured_at: float
    """Start of the current measurement."""

    def after(self, step: int, *, now: float) -> StepPace:
        """Return the pace after one more report. A repeated step changes nothing, an earlier one
        restarts the measurement."""
        if step == self.step:
            return self
        if step < self.step:
            return replace(first_step(step, now), step_time=self.step_time)
        later = replace(self, step=step, stepped_at=now)
        elapsed = now - self.measured_at
        if elapsed < LEAST:
            return later
        measure = elapsed / (step - self.measured_step)
        before = measure if self.step_time is None else self.step_time
        smoothed = before + WEIGHT * (measure - before)
        return replace(later, step_time=smoothed, measured_step=step, measured_at=now)


def first_step(step: int, now: float) -> StepPace:
    """Return the pace after the first report of a step."""
    return StepPace(step=step, stepped_at=now, measured_step=step, measured_at=now)


log = logging.getLogger("resile.agent")

LARGEST_NUMBER = 2**63 - 1
"""The largest number that a message to the master can carry."""

BATCH = 64
"""Datagrams that are read in one turn of the event loop."""

PAUSE = 0.05
"""Seconds without reading after datagrams from other users."""

SENDERS = MAX_WORKERS + 256
"""Processes whose latest report is kept until it is known whether they are workers: room for all
workers of a node, and for some others."""

_CREDENTIALS = struct.Struct("3i")
_LARGEST = 4096

Number = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_NUMBER)]


class ProgressReport(msgspec.Struct, frozen=True, kw_only=True):
    """The content of one datagram."""

    round: Number
    step: Number | None = None
    loss: float | msgspec.UnsetType | None = msgspec.UNSET
    """None if the loss is not a finite number."""

    total: Number | None = None
    resumed: Number | None = None
    source: Annotated[str, msgspec.Meta(max_length=32)] = ""

    def after(self, earlier: Progress) -> Progress:
        """Return the progress after this report; fields that it leaves out keep their values."""
        loss = earlier.loss if self.loss is msgspec.UNSET else self.loss
        given = Progress(
            step=self.step,
            loss=loss,
            total=self.total,
            resumed=self.resumed,
            source=self.source,
        )
        return _added(msgspec.structs.replace(earlier, loss=None), given)


_decoder = JsonDecoder[ProgressReport](ProgressReport)


class ProgressSocket:
    """Receives reports of the current round. ``clock`` is monotonic."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.name = f"@resile-{secrets.token_hex(8)}"
        """The value of RESILE_PROGRESS_SOCKET. ``@`` stands for Linux' abstract namespace: no file
        is left behind, however this process ends."""
        self._clock = clock
        self._round = 0
        self._reports: dict[int, Progress] = {}
        """The latest report of each session, the newest last. A worker leads a session."""
        self._paces: dict[int, StepPace] = {}
        """The pace of each session that reported a step. Another thread reads it, so entries are
        replaced and never removed within a round."""
        self._latest: Progress | None = None
        self._refused = False
        self._loop = asyncio.get_running_loop()
        self._resuming: asyncio.TimerHandle | None = None
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket.bind("\0" + self.name[1:])
        self._socket.setblocking(False)
        self._loop.add_reader(self._socket, self._read)

    def new_round(self, number: int) -> None:
        """Reports of older rounds no longer count."""
        self._round, self._reports, self._paces = number, {}, {}

    def latest(self, workers: Collection[int]) -> Progress | None:
        """The latest progress of the node; ``workers`` are the process ids of the current ones.

        Ranks of a node may report different fields: those that the newest report leaves out are
        taken from earlier ones.
        """
        current = [progress for leader, progress in self._reports.items() if leader in workers]
        if current:
            self._latest = functools.reduce(_added, current)
        return self._latest

    def ranks(self, workers: Mapping[int, int]) -> tuple[RankProgress, ...]:
        """The progress of each worker that reported a step in this round; ``workers``: the global
        rank of each by its process id, in the order of their local ranks."""
        now = self._clock()
        paces = [
            (local_rank, rank, self._paces.get(pid))
            for local_rank, (pid, rank) in enumerate(workers.items())
        ]
        return tuple(
            RankProgress(
                local_rank=local_rank,
                rank=rank,
                step=pace.step,
                age=max(0.0, now - pace.stepped_at),
                step_time=pace.step_time,
            )
            for local_rank, rank, pace in paces
            if pace is not None
        )

    def close(self) -> None:
        """Stop listening."""
        if self._resuming is not None:
            self._resuming.cancel()
        self._loop.remove_reader(self._socket)
        self._socket.close()

    def _read(self) -> None:
        foreign = False
        with contextlib.suppress(BlockingIOError):
            for _ in range(BATCH):
                data, ancillary, _, _ = self._socket.recvmsg(
                    _LARGEST, socket.CMSG_SPACE(_CREDENTIALS.size)
                )
                pid, user = _sender(ancillary)
                if user in (os.getuid(), 0):
                    self._take(pid, data)
                else:
                    foreign = True
                    self._refuse(pid, user)
        if foreign:
            self._pause()

    def _refuse(self, pid: int, user: int) -> None:
        if not self._refused:
            self._refused = True
            log.warning("ignored a progress report from user %d (process %d)", user, pid)

    def _pause(self) -> None:
        """Stop reading for a moment, so that datagrams from other users cost little."""
        self._loop.remove_reader(self._socket)
        self._resuming = self._loop.call_later(
            PAUSE, lambda: self._loop.add_reader(self._socket, self._read)
        )

    def _take(self, pid: int, data: bytes) -> None:
        try:
            report = _decoder.decode(data)
        except DecodeError:
            return
        if report.round != self._round:
            return
        leader = _session(pid)
        known = self._reports.pop(leader, None)
        if known or len(self._reports) < SENDERS:
            self._reports[leader] = report.after(known or Progress())
            if report.step is not None:
                self._note_step(leader, report.step)

    def _note_step(self, leader: int, step: int) -> None:
        now, pace = self._clock(), self._paces.get(leader)
        self._paces[leader] = first_step(step, now) if pace is None else pace.after(step, now=now)


def _added(earlier: Progress, later: Progress) -> Progress:
    """Return ``earlier`` updated with the fields that ``later`` has."""
    return Progress(
        step=earlier.step if later.step is None else later.step,
        loss=earlier.loss if later.loss is None else later.loss,
        total=earlier.total if later.total is None else later.total,
        resumed=earlier.resumed if later.resumed is None else later.resumed,
        source=later.source or earlier.source,
    )


def _sender(ancillary: list[tuple[int, int, bytes]]) -> tuple[int, int]:
    """The sending process and its user, from the kernel."""
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            pid, user, _ = _CREDENTIALS.unpack(data)
            return pid, user
    return 0, -1


def _session(pid: int) -> int:
    """The session leader of a process; the process itself if it has exited."""
    try:
        return os.getsid(pid)
    except OSError:
        return pid
