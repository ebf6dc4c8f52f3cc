"""Resource usage of nodes: of all their processes, including those that have ended."""

from __future__ import annotations

import asyncio
from pathlib import Path

from resile.local.platform import LocalPlatform
from tests.local.commands import wait_for
from tests.local.platform.nodes import appears, ended, python, running, start, stop

# Twice 0.3 s is more than 0.5 s, also when the kernel rounds each down to hundredths.
SPIN = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass"


async def test_cpu_time_of_ended_processes_is_kept(platform: LocalPlatform, tmp_path: Path) -> None:
    (tmp_path / "spin.py").write_text(SPIN)
    spin = " ".join((*python("")[:3], "spin.py"))
    await platform.apply(
        [start(0, "sh", "-c", f"{spin}; {spin}; echo > spun; sleep 1000", cwd=tmp_path), start(1)]
    )
    await appears(tmp_path / "spun")
    used = platform.usage()
    assert used[0].cpu >= 0.5
    assert used[1].cpu < 0.3


async def test_cpu_time_of_running_descendants_is_counted(
    platform: LocalPlatform, tmp_path: Path
) -> None:
    (tmp_path / "spin.py").write_text(SPIN + "\ntime.sleep(1000)")
    spin = " ".join((*python("")[:3], "spin.py"))
    await platform.apply([start(0, "sh", "-c", f"{spin} & {spin} & wait", cwd=tmp_path)])
    await running(platform, 0)
    await asyncio.to_thread(wait_for, lambda: platform.usage()[0].cpu >= 0.5, "cpu time of both")


async def test_only_nodes_with_processes_use_anything(platform: LocalPlatform) -> None:
    await platform.apply([start(0), start(1, cpu="1000")])
    await running(platform, 0)
    assert set(platform.usage()) == {0}
    assert platform.usage()[0].memory > 0
    await platform.apply([stop(0)])
    await ended(platform, 0)
    assert platform.usage() == {}
