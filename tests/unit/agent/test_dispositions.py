"""The disposition of a signal in a process, read from the kernel."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from resile.agent.workers import Disposition, disposition, disposition_in_status

WAITS = "import signal, sys; signal.signal(signal.SIGTERM, {}); print(flush=True); sys.stdin.read()"


@pytest.mark.parametrize(
    ("handler", "found"),
    [
        ("lambda *_: None", Disposition.CAUGHT),
        ("signal.SIG_IGN", Disposition.IGNORED),
        ("signal.SIG_DFL", Disposition.DEFAULT),
    ],
)
def test_the_kernel_knows_what_a_script_does_with_a_signal(
    handler: str, found: Disposition
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WAITS.format(handler)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert disposition(process.pid, signal.SIGTERM) is found
        process.communicate()
    assert disposition(process.pid, signal.SIGTERM) is Disposition.DEFAULT


def test_a_signal_is_bit_n_minus_1() -> None:
    status = "Name:\tx\nSigIgn:\t0000000000001000\nSigCgt:\t0000000000004002\n"
    assert disposition_in_status(status, signal.SIGTERM) is Disposition.CAUGHT
    assert disposition_in_status(status, signal.SIGINT) is Disposition.CAUGHT
    assert disposition_in_status(status, signal.SIGPIPE) is Disposition.IGNORED
    assert disposition_in_status(status, signal.SIGHUP) is Disposition.DEFAULT
    assert disposition_in_status("", signal.SIGTERM) is Disposition.DEFAULT
