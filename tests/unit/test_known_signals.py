"""Tests that send SIGINT work also where it was ignored by the process that started them."""

from __future__ import annotations

import signal
import subprocess
import sys

INTERRUPTS_ITSELF = "import os, signal; os.kill(os.getpid(), signal.SIGINT)"


def test_processes_of_tests_can_be_interrupted_in_a_background_shell() -> None:
    program = (
        "import signal, subprocess, sys\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "import tests.conftest\n"
        f"child = subprocess.run([sys.executable, '-c', {INTERRUPTS_ITSELF!r}], stderr=-3)\n"
        "sys.exit(0 if child.returncode == -signal.SIGINT else 1)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
