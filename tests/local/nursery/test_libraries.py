"""Libraries that cannot be preloaded as a whole do not cost the warm start of torch.

pyarrow starts a thread when it is imported, and with it pandas, scikit-learn and datasets; others
read ranks, open files or draw random numbers.
"""

import asyncio
import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

from resile.agent.nursery import NurseryPolicy
from tests.local.nursery.harness import nursery_for, script

Write = Callable[[str, str], Path]

TRAIN = """
import sys
(kept,) = [finder for finder in sys.meta_path if type(finder).__name__ == "DeferredModules"]
print("preloaded:", kept.has("torch"), flush=True)
import {library}
import torch
print(torch.nn.Linear(1, 1).weight.shape, {rank}, flush=True)
"""

RANKS = {"lightning": "lightning.pytorch.utilities.rank_zero_only.rank"}
"""Libraries that read their rank when they are imported, and where they keep it."""

PATIENCE = 240.0


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "library", ["pyarrow", "pandas", "sklearn.datasets", "datasets", "transformers", "lightning"]
)
async def test_the_second_launch_has_torch_preloaded(
    tmp_path: Path, write: Write, library: str
) -> None:
    if importlib.util.find_spec(library.partition(".")[0]) is None:
        pytest.skip(f"{library} is not installed")
    rank = RANKS.get(library, "1")
    write("train.py", TRAIN.format(library=library, rank=rank))
    for preloaded in (False, True):
        policy = NurseryPolicy(quiet=600)
        async with nursery_for(tmp_path, script("train.py"), policy=policy) as harness:
            (running,) = await harness.spawn(RANK="1")
            assert running.worker.warm, running.worker.reason
            assert await asyncio.wait_for(running.worker.wait(), PATIENCE) == 0
            assert running.stdout.read_text().splitlines() == [
                f"preloaded: {preloaded}",
                "torch.Size([1, 1]) 1",
            ]
