"""A variable that a script sets before it imports a library has its usual effect."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from tests.local.nursery.harness import nursery_for, script

Write = Callable[[str, str], Path]

SCRIPTS = {
    "huggingface_hub": """
        os.environ.update(HF_HOME="/somewhere/else", HF_HUB_OFFLINE="1")
        from huggingface_hub import constants
        print(constants.HF_HOME, constants.HF_HUB_CACHE, constants.HF_HUB_OFFLINE)
        """,
    "torch": """
        os.environ.update(TORCH_LOGS="+dynamo", TORCHDYNAMO_DISABLE="1", OMP_NUM_THREADS="2")
        import torch
        levels = torch._logging._internal.log_state.log_qname_to_level
        compiled = torch.compile(abs, backend=lambda *_: 1 / 0)
        print(levels, compiled(torch.tensor(-1.0)), torch.get_num_threads())
        """,
    "matplotlib": """
        os.environ.update(MPLCONFIGDIR=os.path.abspath("config"))
        import matplotlib
        print(matplotlib.rcParams["lines.linewidth"], matplotlib.get_configdir())
        """,
    "scipy": """
        os.environ.update(SCIPY_ARRAY_API="1")
        from scipy._lib import _array_api
        print(_array_api.SCIPY_ARRAY_API)
        """,
}
"""Each prints the effect of the variables; without them it would print something else."""


@pytest.mark.parametrize("library", SCRIPTS)
async def test_it_has_its_effect_in_warm_workers(
    tmp_path: Path, write: Write, library: str
) -> None:
    """In the first launch, and in one with cached imports of the script."""
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    write("train.py", "import os\n" + dedent(SCRIPTS[library]))
    write("config/matplotlibrc", "lines.linewidth: 7")
    found = []
    for launch in (1, 2):
        async with nursery_for(tmp_path, script("train.py")) as harness:
            (running,) = await harness.spawn()
            assert running.worker.warm, running.worker.reason
            found.append(await running.outcome())
            if launch == 1 and library != "torch":  # which is preloaded without being learnt
                await harness.nursery.learn()
    fresh = harness.run_fresh()
    assert fresh.returncode == 0
    # What torch logs has the time in it.
    assert [one.stdout for one in found] == [fresh.stdout] * 2
