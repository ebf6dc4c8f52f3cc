"""The meaning of a node's exit."""

from __future__ import annotations

import subprocess
import sys

import hypothesis.strategies as st
import pytest
from hypothesis import given

from resile.job.exits import ExitCause, NodeExit, NodeExitCode, classify, describe


@pytest.mark.parametrize(
    ("end", "cause", "words"),
    [
        (NodeExit(code=0), ExitCause.COMPLETED, "completed"),
        (NodeExit(code=1), ExitCause.ERROR, "exited with code 1"),
        (NodeExit(code=42), ExitCause.ERROR, "exited with code 42"),
        (NodeExit(code=128), ExitCause.ERROR, "exited with code 128"),
        (NodeExit(code=255), ExitCause.ERROR, "exited with code 255"),
        (NodeExit(code=126), ExitCause.CANNOT_RUN, "could not run its command (code 126)"),
        (NodeExit(code=127), ExitCause.CANNOT_RUN, "could not run its command (code 127)"),
        (NodeExit(code=137), ExitCause.SIGNAL, "was killed by SIGKILL (code 137)"),
        (NodeExit(signal=9), ExitCause.SIGNAL, "was killed by SIGKILL (code 137)"),
        (NodeExit(code=-9), ExitCause.SIGNAL, "was killed by SIGKILL (code 137)"),
        (NodeExit(code=143), ExitCause.SIGNAL, "was killed by SIGTERM (code 143)"),
        (NodeExit(code=139), ExitCause.SIGNAL, "was killed by SIGSEGV (code 139)"),
        (NodeExit(code=130), ExitCause.SIGNAL, "was killed by SIGINT (code 130)"),
        (NodeExit(code=128 + 33), ExitCause.SIGNAL, "was killed by signal 33 (code 161)"),
        (NodeExit(code=137, oom=True), ExitCause.OUT_OF_MEMORY, "ran out of memory"),
        (NodeExit(code=137, reason="OOMKilled"), ExitCause.OUT_OF_MEMORY, "ran out of memory"),
        (NodeExit(code=143, reason="Preempted"), ExitCause.PREEMPTED, "was preempted"),
        (NodeExit(code=0, reason="Preempted"), ExitCause.PREEMPTED, "was preempted"),
        (NodeExit(reason="PreemptionByScheduler"), ExitCause.PREEMPTED, "was preempted"),
        (NodeExit(code=137, oom=True, reason="Deleted"), ExitCause.DELETED, "was deleted"),
        (NodeExit(reason="Evicted"), ExitCause.EVICTED, "was evicted"),
        (NodeExit(reason="NodeLost"), ExitCause.NODE_LOST, "was lost with its machine"),
        (NodeExit(reason="NodeShutdown"), ExitCause.NODE_LOST, "was lost with its machine"),
        (NodeExit(reason="NeverStarted"), ExitCause.NEVER_STARTED, "could not be started"),
        (NodeExit(reason="StartError"), ExitCause.CANNOT_RUN, "could not run its command"),
        (NodeExit(code=1, reason="Error"), ExitCause.ERROR, "exited with code 1"),
        (NodeExit(code=0, reason="Completed"), ExitCause.COMPLETED, "completed"),
        (NodeExit(code=80), ExitCause.DRAINED, "left on purpose after SIGTERM"),
        (NodeExit(code=81), ExitCause.STRAGGLER, "was much slower than its peers and left"),
        (NodeExit(code=82), ExitCause.BROKEN_NODE, "failed its health check and left"),
        (NodeExit(code=83), ExitCause.NO_PROGRESS, "made no progress and left"),
        (NodeExit(code=84), ExitCause.FENCED, "was evicted by the master and could not rejoin"),
        (NodeExit(), ExitCause.UNKNOWN, "ended for an unknown reason"),
    ],
)
def test_each_end_has_its_cause_and_its_words(end: NodeExit, cause: ExitCause, words: str) -> None:
    assert classify(end) is cause
    assert describe(end) == words


def test_the_documented_codes_do_not_change() -> None:
    assert {code.name: int(code) for code in NodeExitCode} == {
        "COMPLETED": 0,
        "JOB_FAILED": 1,
        "DRAINED": 80,
        "STRAGGLER": 81,
        "BROKEN_NODE": 82,
        "NO_PROGRESS": 83,
        "FENCED": 84,
        "OUTPUT_LOST": 85,
        "INTERRUPTED": 130,
    }


@given(
    code=st.none() | st.integers(-64, 255),
    signal=st.none() | st.integers(1, 64),
    oom=st.booleans(),
    reason=st.text(max_size=10) | st.sampled_from(["Evicted", "OOMKilled", "Error"]),
)
def test_every_end_can_be_named_and_described(
    code: int | None, signal: int | None, oom: bool, reason: str
) -> None:
    end = NodeExit(code=code, signal=signal, oom=oom, reason=reason)
    assert isinstance(classify(end), ExitCause)
    assert describe(end)


def test_an_agent_can_import_it_without_anything_else_of_ours() -> None:
    program = (
        "import sys, resile.job.exits; "
        "print([m for m in sys.modules if m.split('.')[0] in ('msgspec', 'yaml', 'torch')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
