"""Cgroups of version 2, with the real kernel and any controller that is available.

A machine that has memory under version 1 usually leaves some other controller to version 2; a
folder is created, given its controller and entered in the same way for all of them.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from resile.local.limits.cgroups import remove
from tests.local.commands import PATIENCE, wait_for
from tests.local.platform.test_crashes import ROOT


@dataclass(frozen=True)
class Delegated:
    """A part of the hierarchy that belongs to the test."""

    folder: Path
    controller: str

    def homes_of_process_in(self, own: Path, *, job: str = "here") -> list[object]:
        code = [sys.executable, "-m", "tests.local.platform.delegate"]
        said = subprocess.run(
            [*code, str(own), self.controller, job], cwd=ROOT, capture_output=True, check=True
        )
        found: list[object] = json.loads(said.stdout)
        return found


@pytest.fixture
def delegated() -> Iterator[Delegated]:
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    root = next((Path(fields[1]) for fields in mounts if fields[2] == "cgroup2"), None)
    if root is None or not os.access(root / "cgroup.subtree_control", os.W_OK):
        pytest.skip("no hierarchy of version 2 that may be changed")
    controller = next(iter((root / "cgroup.controllers").read_text().split()), "")
    if not controller:
        pytest.skip("version 2 has no controller on this machine")
    switch = root / "cgroup.subtree_control"
    was_on = controller in switch.read_text().split()
    folder = root / f"resile-test-{os.getpid()}"
    folder.mkdir()
    switch.write_text(f"+{controller}")
    try:
        yield Delegated(folder, controller)
    finally:
        for below in [*folder.glob("*/*/"), *folder.glob("*/"), folder]:
            wait_for(lambda below=below: remove(below), f"the removal of {below}")
        if not was_on:
            switch.write_text(f"-{controller}")


def test_a_cgroup_that_holds_processes_gets_its_nodes_beside_it(delegated: Delegated) -> None:
    own = delegated.folder / "own"
    own.mkdir()
    (found,) = delegated.homes_of_process_in(own)
    assert found == [2, str(delegated.folder), [delegated.controller]]


def test_a_place_where_no_controller_is_handed_on_is_not_used(delegated: Delegated) -> None:
    middle = delegated.folder / "middle"
    own = middle / "own"
    own.mkdir(parents=True)
    assert delegated.homes_of_process_in(own) == []
    assert list(middle.glob("resile.*")) == []


def test_what_a_crashed_run_left_is_removed_with_its_processes(delegated: Delegated) -> None:
    own = delegated.folder / "own"
    own.mkdir()
    namespace = Path("/proc/self/ns/pid").stat().st_ino
    stale = delegated.folder / f"resile.here.{namespace}.4194305.1"
    (stale / "node").mkdir(parents=True)
    others = [
        delegated.folder / f"resile.there.{namespace}.4194305.1",
        delegated.folder / f"resile.here.{namespace + 1}.4194305.1",
    ]
    for other in others:
        other.mkdir()
    with subprocess.Popen(["sleep", "1000"]) as left:
        try:
            (stale / "node" / "cgroup.procs").write_text(str(left.pid))
            delegated.homes_of_process_in(own)
            assert left.wait(PATIENCE) == -signal.SIGKILL
        finally:
            left.kill()
    assert not stale.exists()
    assert all(other.exists() for other in others), "another job's, and another pid namespace's"
