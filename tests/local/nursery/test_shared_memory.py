"""Shared memory that a library creates at import time is freed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.local.nursery.harness import nursery_for, script, until
from tests.local.nursery.test_fork_safety import EAGER, cached, installed

Write = Callable[[str, str], Path]

MAKERS = {
    "a segment": (
        "from multiprocessing.shared_memory import SharedMemory\n"
        "segment = SharedMemory(create=True, size=100)\n"
        "name = segment.name\n"
    ),
    "a semaphore": (
        "import multiprocessing\n"
        "lock = multiprocessing.get_context('spawn').Lock()\n"
        "name = 'sem.' + lock._semlock.name.lstrip('/')\n"
    ),
}


@pytest.mark.parametrize("what", MAKERS)
async def test_what_a_library_makes_in_a_nursery_is_removed(
    tmp_path: Path, write: Write, what: str
) -> None:
    write(
        "site-packages/maker.py",
        f"{MAKERS[what]}import os\nwith open('names.txt', 'a') as file: file.write(name + '\\n')\n",
    )
    write("train.py", "import maker; print(maker.name)")
    env = installed(tmp_path)
    async with nursery_for(tmp_path, script("train.py"), env=env, policy=EAGER) as harness:
        first = (await harness.run()).stdout
        await until(lambda: "maker" in cached(tmp_path, "unfit"))
        assert (await harness.run()).stdout != first, "each worker has its own"
    names = (tmp_path / "work" / "names.txt").read_text().split()
    assert len(names) >= 3, "two workers and a nursery"
    await until(lambda: not [name for name in names if (Path("/dev/shm") / name).exists()])
