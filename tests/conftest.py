"""Settings for every test of a process, whichever runs first in it."""

from __future__ import annotations

import os
import signal

from hypothesis import settings

from tests.durations import pytest_addoption, pytest_terminal_summary

__all__ = ["pytest_addoption", "pytest_terminal_summary"]

# The duration of an example depends more on the machine's load than on the code.
settings.register_profile("resile", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=25)  # of `make quick`
settings.load_profile("resile")

# gcsfs reads this once, on import: it queries buckets with folders by gRPC, which a Google Storage
# server on this machine does not support, and would wait for minutes.
os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"

# The writer process of snapshots gets a hundredth of a busy core, and tests, which keep all cores
# busy, wait for what it writes.
os.environ["RESILE_WRITER_NICE"] = "0"

# A background shell (`make test &`), nohup and some services start programs with signals ignored,
# and every process that a test starts would inherit that. A handler is not inherited, and this one
# does nothing: pytest itself ignores them still.
for number in (signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, lambda *_: None)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
