"""Introspection of torchrun's agent for facts that it does not pass to its rendezvous handler.

The master needs the number of workers of the node, their restart limit and how they ended, and
torch's interface has no place for it. So the agent is looked up on the call stack, once, and
queried through its public methods; the result of its last check of the workers is found the same
way. Both are recognized by their types, not by the names of variables.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from types import FrameType

from torch.distributed.elastic.agent.server.api import (
    ElasticAgent,
    RunResult,
    WorkerSpec,
    WorkerState,
)
from torch.distributed.elastic.multiprocessing.errors import ProcessFailure
from torch.distributed.elastic.rendezvous import RendezvousStateError

from resile.wire.messages import WorkerFailure

LONGEST_MESSAGE = 8 * 1024
"""The end of a traceback is enough to see what happened, also of a deep one."""


class CallingAgent:
    """torchrun's agent, found on the call stack of the constructor."""

    def __init__(self) -> None:
        for frame in _callers():
            candidate = frame.f_locals.get("self")
            if isinstance(candidate, ElasticAgent):
                self._agent = candidate
                return
        raise RendezvousStateError(
            "the rendezvous backend 'resile' works only with torch's elastic agent: use torchrun "
            "or torch.distributed.launcher"
        )

    @property
    def spec(self) -> WorkerSpec:
        """The spec of the workers that torchrun runs."""
        return self._agent.get_worker_group().spec

    @property
    def workers_succeeded(self) -> bool:
        """Whether all workers succeeded."""
        return bool(self._agent.get_worker_group().state is WorkerState.SUCCEEDED)

    @property
    def workers_failed(self) -> bool:
        """Whether torchrun has given up on its workers."""
        return bool(self._agent.get_worker_group().state is WorkerState.FAILED)


def worker_failures(first_rank: int) -> tuple[WorkerFailure, ...]:
    """Return the latest worker failures that the calling agent saw; never empty."""
    for frame in _callers():
        for value in frame.f_locals.values():
            if isinstance(value, RunResult) and value.failures:
                return _without_echo(
                    tuple(_failure(rank, end) for rank, end in sorted(value.failures.items()))
                )
    # torchrun can also report its workers as unhealthy without a dead one among them.
    why = "torchrun reported its workers as unhealthy"
    return (WorkerFailure(local_rank=0, rank=first_rank, pid=0, exit_code=1, message=why),)


def _without_echo(failures: tuple[WorkerFailure, ...]) -> tuple[WorkerFailure, ...]:
    """Remove the workers that torchrun itself stopped because another one had failed."""
    own = tuple(failure for failure in failures if failure.exit_code != -signal.SIGTERM)
    return own or failures


def _callers() -> Iterator[FrameType]:
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        yield frame


def _failure(rank: int, failure: ProcessFailure) -> WorkerFailure:
    return WorkerFailure(
        local_rank=failure.local_rank,
        rank=rank,
        pid=failure.pid,
        exit_code=failure.exitcode,
        age=max(0.0, time.time() - failure.timestamp),
        message=_last_words(failure)[-LONGEST_MESSAGE:],
    )


def _last_words(failure: ProcessFailure) -> str:
    """The traceback in the worker's error file, if it wrote one."""
    said = failure.error_file_data.get("message")
    if isinstance(said, dict):
        return str(said.get("extraInfo", {}).get("py_callstack") or said.get("message", ""))
    return "" if said in (None, "<NONE>") else str(said)
