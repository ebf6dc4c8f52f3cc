"""No two workers draw the same numbers, unless they are meant to."""

import json
from collections.abc import Callable
from pathlib import Path

from tests.local.nursery.harness import nursery_for, script

Write = Callable[[str, str], Path]

DRAW = """
import json, multiprocessing, os, random, secrets, tempfile, uuid
import numpy, torch

print(json.dumps({
    "random": random.random(),
    "numpy": float(numpy.random.random()),
    "generator": float(numpy.random.default_rng().random()),
    "torch": torch.initial_seed(),
    "torch_draw": float(torch.rand(1, dtype=torch.float64)),
    "uuid": str(uuid.uuid4()),
    "secret": secrets.token_hex(),
    "file": tempfile.mktemp(),
    "authkey": multiprocessing.current_process().authkey.hex(),
}))
"""


async def test_every_source_of_randomness_differs_between_workers(
    tmp_path: Path, write: Write
) -> None:
    write("train.py", DRAW)
    async with nursery_for(tmp_path, script("train.py")) as harness:
        draws = []
        for _ in range(2):
            workers = await harness.spawn(2)
            assert all(running.worker.warm for running in workers)
            draws += [json.loads((await running.outcome()).stdout) for running in workers]
    for source in draws[0]:
        assert len({draw[source] for draw in draws}) == len(draws), source


async def test_a_library_that_seeds_on_purpose_is_respected(tmp_path: Path, write: Write) -> None:
    write("site-packages/seeded.py", "import numpy, torch\nnumpy.random.seed(3)\n")
    write("site-packages/sown.py", "import seeded, torch\ntorch.manual_seed(5)\n")
    write(
        "train.py",
        """
        import seeded, sown, numpy, torch
        print(numpy.random.random(), torch.initial_seed(), torch.rand(1))
        """,
    )
    env = {"PYTHONPATH": str(tmp_path / "work" / "site-packages")}
    async with nursery_for(tmp_path, script("train.py"), env=env) as harness:
        (running,) = await harness.spawn()
        assert running.worker.warm
        assert await running.outcome() == harness.run_fresh()
