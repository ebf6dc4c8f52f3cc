"""What holds for every test of a process, whichever runs first in it."""

from __future__ import annotations

import os
import signal

from hypothesis import settings

from tests.durations import pytest_addoption, pytest_terminal_summary

__all__ = ["pytest_addoption", "pytest_terminal_summary"]

# How long an example takes says more about what else the machine does than about the code.
settings.register_profile("resile", deadline=None)
settings.load_profile("resile")

# gcsfs reads this once, when something imports it: buckets with folders are asked for by gRPC,
# and against a Google Storage server on this machine, which does not speak it, that waits minutes.
os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"

# A background shell (`make test &`), nohup and some services start programs with signals ignored,
# and every process that a test starts would inherit that. A handler is not inherited, and this one
# does nothing: pytest itself ignores them still.
for number in (signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, lambda *_: None)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
