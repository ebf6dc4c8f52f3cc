"""Scripts that start further processes, with all of Python's start methods."""

from collections.abc import Callable
from pathlib import Path

import pytest

from resile.agent.nursery import WorkerCommand
from tests.local.nursery.harness import module, nursery_for, script

Write = Callable[[str, str], Path]

POOL = """
import multiprocessing, os, sys
from dataclasses import dataclass

@dataclass
class Task:
    number: int

def square(task):
    return Task(task.number ** 2)

def main():
    context = multiprocessing.get_context(os.environ["RESILE_METHOD"])
    with context.Pool(2) as pool:
        print([task.number for task in pool.map(square, [Task(i) for i in range(5)])])
    with context.Manager() as manager:
        shared = manager.dict(a=1)
        process = context.Process(target=shared.update, kwargs={"b": 2})
        process.start()
        process.join()
        print(dict(shared), process.exitcode)

if __name__ == "__main__":
    main()
"""

METHODS = ["fork", "spawn", "forkserver"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("command", [script("train.py"), module("pack.train")], ids=["file", "-m"])
async def test_pools_and_managers_work(
    tmp_path: Path, write: Write, method: str, command: WorkerCommand
) -> None:
    write("train.py", POOL)
    write("pack/__init__.py", "")
    write("pack/train.py", POOL)
    async with nursery_for(tmp_path, command) as harness:
        (running,) = await harness.spawn(RESILE_METHOD=method)
        assert running.worker.warm
        outcome = await running.outcome()
    assert outcome.stdout == "[0, 1, 4, 9, 16]\n{'a': 1, 'b': 2} 0\n"
    assert (outcome.returncode, outcome.stderr) == (0, "")


LOADER = """
import os
import torch
from torch.utils.data import DataLoader, Dataset

class Squares(Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, index):
        return torch.full((3,), float(index ** 2))

def main():
    for method in ("fork", "spawn"):
        loader = DataLoader(Squares(), batch_size=4, num_workers=2, multiprocessing_context=method)
        print(method, [batch.sum().item() for batch in loader])

if __name__ == "__main__":
    main()
"""


async def test_data_loaders_with_workers_work(tmp_path: Path, write: Write) -> None:
    write("train.py", LOADER)
    sums = [42.0, 378.0, 1098.0, 2202.0]
    async with nursery_for(tmp_path, script("train.py")) as harness:
        (running,) = await harness.spawn()
        assert running.worker.warm
        outcome = await running.outcome()
    assert outcome.stderr == ""
    assert outcome.stdout.splitlines() == [f"fork {sums}", f"spawn {sums}"]


PARALLEL = """
import numpy, torch
matrix = numpy.random.random((400, 400))
assert numpy.isfinite(matrix @ matrix).all()
tensor = torch.rand(600, 600)
assert torch.isfinite(tensor @ tensor).all()
print(torch.get_num_threads())
"""


async def test_thread_pools_of_numerical_libraries_work_after_the_fork(
    tmp_path: Path, write: Write
) -> None:
    write("train.py", PARALLEL)
    env = {"OMP_NUM_THREADS": "3"}
    async with nursery_for(tmp_path, script("train.py"), env=env) as harness:
        for running in await harness.spawn(2):
            assert running.worker.warm, running.worker.reason
            assert await running.outcome() == harness.run_fresh()
