"""Starting, signalling and reaping workers."""

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from resile.agent.nursery import (
    CommandKind,
    NurseryClosed,
    Preload,
    PreloadMode,
    WorkerCommand,
    WorkerSpec,
)
from tests.local.nursery.harness import (
    NurseryHarness,
    executable,
    is_alive,
    kill,
    nursery_for,
    script,
    until,
)

Write = Callable[[str, str], Path]

SLEEPER = "import time; print('up', flush=True); time.sleep(600)"
NO_PRELOAD = Preload(PreloadMode.NONE)


async def sleeping(harness: NurseryHarness, count: int = 1) -> list[int]:
    workers = await harness.spawn(count)
    for running in workers:
        await running.printed("up")
    return [running.worker.pid for running in workers]


async def test_workers_have_their_own_rank_and_output(tmp_path: Path, write: Write) -> None:
    write("train.py", "import os; print('I am', os.environ['RANK'])")
    async with nursery_for(tmp_path, script("train.py")) as harness:
        outcomes = [await running.outcome() for running in await harness.spawn(4)]
    assert [outcome.stdout for outcome in outcomes] == [f"I am {rank}\n" for rank in range(4)]


@pytest.mark.parametrize("preload", [Preload(), NO_PRELOAD], ids=["warm", "cold"])
async def test_death_by_a_signal_is_a_negative_return_code(
    tmp_path: Path, write: Write, preload: Preload
) -> None:
    write("train.py", SLEEPER)
    async with nursery_for(tmp_path, script("train.py"), preload=preload) as harness:
        for number in (signal.SIGTERM, signal.SIGKILL):
            (running,) = await harness.spawn()
            assert running.worker.warm is (preload.mode is PreloadMode.AUTO)
            await running.printed("up")
            running.worker.signal(number)
            assert await running.worker.wait() == -number
            assert running.worker.returncode == -number


async def test_a_signal_sent_at_birth_is_not_lost(tmp_path: Path, write: Write) -> None:
    write("train.py", SLEEPER)
    async with nursery_for(tmp_path, script("train.py")) as harness:
        workers = await harness.spawn(4)
        for running in workers:
            running.worker.signal(signal.SIGTERM)
        for running in workers:
            assert (await running.outcome()).returncode == -signal.SIGTERM


async def test_a_worker_killed_from_outside_is_noticed(tmp_path: Path, write: Write) -> None:
    write("train.py", SLEEPER)
    async with nursery_for(tmp_path, script("train.py")) as harness:
        first, second = await harness.spawn(2)
        await first.printed("up")
        kill(first.worker.pid)
        assert await first.worker.wait() == -signal.SIGKILL
        assert second.worker.returncode is None


async def test_a_terminals_signal_reaches_what_a_worker_started(
    tmp_path: Path, write: Write
) -> None:
    write(
        "train.py",
        """
        import signal, subprocess, time
        child = subprocess.Popen(["sleep", "600"])
        signal.signal(signal.SIGHUP, lambda *_: print("told", child.wait(), flush=True))
        print("up", child.pid, flush=True)
        time.sleep(600)
        """,
    )
    async with nursery_for(tmp_path, script("train.py")) as harness:
        (running,) = await harness.spawn()
        await running.printed("up")
        running.worker.signal(signal.SIGHUP)
        await running.printed("told -1")


async def test_any_other_signal_is_for_the_worker_alone(tmp_path: Path, write: Write) -> None:
    write(
        "train.py",
        """
        import signal, subprocess, sys, time
        child = subprocess.Popen(["sleep", "600"])
        def end(*_):
            time.sleep(0.2)
            print("saved while the child was", child.poll(), flush=True)
            sys.exit(3)
        signal.signal(signal.SIGTERM, end)
        print("up", flush=True)
        time.sleep(600)
        """,
    )
    async with nursery_for(tmp_path, script("train.py")) as harness:
        (running,) = await harness.spawn()
        await running.printed("up")
        running.worker.signal(signal.SIGTERM)
        await running.printed("saved while the child was None")
        assert await running.worker.wait() == 3


@pytest.mark.parametrize("preload", [Preload(), NO_PRELOAD], ids=["warm", "cold"])
async def test_what_a_worker_leaves_behind_is_ended(
    tmp_path: Path, write: Write, preload: Preload
) -> None:
    write(
        "train.py",
        """
        import subprocess, sys
        stubborn = "import signal; signal.signal(15, signal.SIG_IGN); print(1, flush=True)"
        stubborn += "; signal.pause()"
        mild = subprocess.Popen(["sleep", "600"])
        hard = subprocess.Popen([sys.executable, "-c", stubborn], stdout=subprocess.PIPE)
        hard.stdout.readline()
        print(mild.pid, hard.pid, "up", flush=True)
        """,
    )
    async with nursery_for(tmp_path, script("train.py"), preload=preload) as harness:
        outcome = await harness.run()
        pids = [int(word) for word in outcome.stdout.split()[:2]]
        await until(lambda: not any(is_alive(pid) for pid in pids))


async def test_shared_memory_of_a_killed_worker_is_cleaned_up(tmp_path: Path, write: Write) -> None:
    write(
        "train.py",
        """
        import time
        from multiprocessing.shared_memory import SharedMemory
        memory = SharedMemory(create=True, size=100)
        print("up", memory.name, flush=True)
        time.sleep(600)
        """,
    )
    async with nursery_for(tmp_path, script("train.py")) as harness:
        (running,) = await harness.spawn()
        await running.printed("\n")
        segment = Path("/dev/shm") / running.stdout.read_text().split()[1]
        assert segment.exists()
        running.worker.signal(signal.SIGKILL)
        await running.worker.wait()
        await until(lambda: not segment.exists())


async def test_closing_ends_everything(tmp_path: Path, write: Write) -> None:
    write("train.py", SLEEPER)
    before = {child.pid for child in psutil.Process().children()}
    async with nursery_for(tmp_path, script("train.py")) as harness:
        pids = await sleeping(harness, 2)
        (nursery,) = [child for child in psutil.Process().children() if child.pid not in before]
        family = [child.pid for child in nursery.children(recursive=True)]
        assert set(pids) <= set(family)
    assert not any(is_alive(pid) for pid in [nursery.pid, *family])
    with pytest.raises(NurseryClosed):
        await harness.spawn()


async def test_workers_are_started_from_eggs_laid_in_quiet_times(
    tmp_path: Path, write: Write
) -> None:
    write("train.py", SLEEPER)
    async with nursery_for(tmp_path, script("train.py")) as harness:
        pids = await sleeping(harness, 2)
        nursery = psutil.Process(pids[0]).parent()
        assert nursery is not None

        def eggs() -> set[int]:
            return {child.pid for child in nursery.children()} - set(pids)

        await until(lambda: len(eggs()) == 2)
        laid = eggs()
        for pid in pids:
            kill(pid)
        kill(min(laid))
        await until(lambda: not is_alive(min(laid)))
        hatched = {running.worker.pid for running in await harness.spawn(2)}
        assert max(laid) in hatched
        assert min(laid) not in hatched


async def test_nurseries_and_eggs_are_not_found_by_the_name_of_the_script(
    tmp_path: Path, write: Write
) -> None:
    name = f"train_{os.getpid()}.py"
    write(name, SLEEPER)
    async with nursery_for(tmp_path, script(name, "--an-argument")) as harness:
        pids = await sleeping(harness)
        nursery = psutil.Process(pids[0]).parent()
        assert nursery is not None
        await until(lambda: len(nursery.children()) == 2)
        named = [p.pid for p in psutil.process_iter(["cmdline"]) if name in str(p.info["cmdline"])]
        assert named == pids


async def test_any_program_can_be_a_worker(tmp_path: Path) -> None:
    async with nursery_for(tmp_path, executable("sh", "-c", "echo $RANK $PWD; exit 4")) as harness:
        first, second = await harness.spawn(2)
        assert not first.worker.warm
        assert "not a Python script" in first.worker.reason
        outcome = await second.outcome()
        assert (outcome.returncode, outcome.stdout) == (4, f"1 {harness.folder}\n")


@pytest.mark.parametrize(
    ("target", "code", "words"),
    [("./nowhere", 127, "not found"), ("./note.txt", 126, "Permission denied")],
)
async def test_a_program_that_cannot_run_says_so_like_a_shell(
    tmp_path: Path, write: Write, target: str, code: int, words: str
) -> None:
    write("note.txt", "not a program")
    async with nursery_for(tmp_path, executable(target)) as harness:
        outcome = await harness.run()
    assert outcome.returncode == code
    assert words in outcome.stderr
    assert target in outcome.stderr


async def test_a_cold_worker_inherits_no_signal_settings(tmp_path: Path) -> None:
    show = "grep -E 'SigBlk|SigIgn|SigCgt' /proc/self/status"
    async with nursery_for(tmp_path, executable("sh", "-c", show)) as harness:
        assert await harness.run() == harness.run_fresh()


async def test_a_worker_in_another_place_or_environment_starts_cold_and_says_why(
    tmp_path: Path, write: Write
) -> None:
    write("train.py", "import os; print(os.getcwd(), os.environ['OMP_NUM_THREADS'])")
    command = script(str(tmp_path / "work" / "train.py"))
    async with nursery_for(tmp_path, command) as harness:
        reasons = []
        for change in (
            {"cwd": str(tmp_path)},
            {"env": {**harness.env, "OMP_NUM_THREADS": "3"}},
            {"command": script(command.target, "other")},
        ):
            null = os.open(os.devnull, os.O_RDWR)
            spec = harness.spec((null, null, null), {})
            (worker,) = await harness.nursery.spawn([replaced(spec, **change)])
            os.close(null)
            assert not worker.warm
            assert await worker.wait() == 0
            reasons.append(worker.reason)
    assert "runs in" in reasons[0]
    assert "OMP_NUM_THREADS" in reasons[1]
    assert "another command" in reasons[2]


def replaced(spec: WorkerSpec, **changes: object) -> WorkerSpec:
    from dataclasses import replace

    return replace(spec, **changes)  # type: ignore[arg-type]


async def test_another_interpreter_starts_cold(tmp_path: Path, write: Write) -> None:
    write("train.py", "print('trained')")
    other = tmp_path / "python"
    other.write_text('#!/bin/sh\nexec python3 "$@"\n')
    other.chmod(0o755)
    command = WorkerCommand(kind=CommandKind.SCRIPT, target="train.py", python=str(other))
    async with nursery_for(tmp_path, command) as harness:
        (running,) = await harness.spawn()
        assert not running.worker.warm
        assert (await running.outcome()).stdout == "trained\n"


async def test_many_large_environments_get_through(tmp_path: Path, write: Write) -> None:
    write("train.py", "import os; print(len(os.environ['RESILE_BIG']))")
    async with nursery_for(tmp_path, script("train.py")) as harness:
        workers = await harness.spawn(10, RESILE_BIG="x" * 120_000)
        assert {(await running.outcome()).stdout for running in workers} == {"120000\n"}


async def test_variables_that_are_not_text_get_through(tmp_path: Path, write: Write) -> None:
    write("train.py", "import os; print(os.environb[b'RESILE_ODD'])")
    async with nursery_for(tmp_path, script("train.py")) as harness:
        odd = os.fsdecode(b"\xff\xfe=\n")
        assert (await harness.run(RESILE_ODD=odd)).stdout == "b'\\xff\\xfe=\\n'\n"


async def test_waiting_may_be_cancelled_and_taken_up_again(tmp_path: Path, write: Write) -> None:
    write("train.py", SLEEPER)
    async with nursery_for(tmp_path, script("train.py")) as harness:
        (running,) = await harness.spawn()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(running.worker.wait(), 0.01)
        running.worker.signal(signal.SIGKILL)
        assert await running.worker.wait() == -signal.SIGKILL
