"""A platform on this machine, closed with the test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import cache
from pathlib import Path
from typing import TypeAlias

import pytest

from resile.local.capacity import Capacity
from resile.local.limits.cgroups import create_job_cgroups, remove
from resile.local.limits.node_limits import MemoryEnforcement
from resile.local.platform import LocalPlatform
from tests.local.platform.nodes import JOB

MakePlatform: TypeAlias = Callable[..., LocalPlatform]


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[MakePlatform]:
    """Creates platforms of a given capacity; nodes that still run at the end are killed."""
    made: list[LocalPlatform] = []

    def one(
        capacity: str = "cpu=4,memory=4Gi",
        *,
        memory: MemoryEnforcement = MemoryEnforcement.AUTO,
        environment: dict[str, str] | None = None,
    ) -> LocalPlatform:
        platform = LocalPlatform(
            job=JOB,
            folder=tmp_path,
            capacity=Capacity.parse(capacity),
            environment=environment or {},
            memory=memory,
        )
        made.append(platform)
        return platform

    yield one
    for platform in made:
        await platform.close(grace=0)


@pytest.fixture
def platform(make: MakePlatform) -> LocalPlatform:
    return make()


@cache
def has_cgroup(controller: str) -> bool:
    """Whether this machine allows creating a cgroup with that controller."""
    homes = create_job_cgroups("trial", [controller])
    for home in homes.values():
        remove(home.folder)
    return controller in homes


def needs_cgroup(controller: str) -> pytest.MarkDecorator:
    """Skips where it does not."""
    return pytest.mark.skipif(
        not has_cgroup(controller), reason=f"no {controller} cgroup can be made on this machine"
    )
