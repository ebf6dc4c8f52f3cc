"""Telling a process from a later one with the same pid."""

from __future__ import annotations

import os
import subprocess
import sys

from resile.system.processes import boot_id, start_time, stat_fields
from tests.local.commands import wait_for


def test_a_process_has_one_start_until_it_ends() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    began = start_time(child.pid)
    assert began is not None
    assert began >= (start_time(os.getpid()) or 0)
    assert start_time(child.pid) == began
    child.kill()
    wait_for(lambda: start_time(child.pid) is None, "the end of the child, be it a zombie")
    assert stat_fields(child.pid) is not None
    child.communicate()
    assert stat_fields(child.pid) is None
    assert start_time(child.pid) is None


def test_a_boot_has_a_name() -> None:
    assert boot_id() == boot_id() != ""
