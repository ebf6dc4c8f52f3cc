"""The effects of importing a library happen in each worker, in the script's own order."""

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from resile.agent.nursery import NurseryPolicy
from tests.local.nursery.harness import nursery_for, script, until

Write = Callable[[str, str], Path]

EAGER = NurseryPolicy(quiet=0.1, worthwhile=1, successor_share=1.0)

LIBRARIES = {
    "reads_rank": "import os\nRANK = os.environ.get('RANK')",
    "reads_all": "import os\nRANK = {k: v for k, v in os.environ.items()}.get('RANK')",
    "reads_setting": "import os\nVALUE = os.environ.get('SET_BY_SCRIPT', 'unset')",
    "uses_reader": "import reads_setting\nVALUE = reads_setting.VALUE",
    "writes_variable": "import os\nos.environ['SET_BY_LIBRARY'] = 'yes'",
    "takes_default": "import os\nVALUE = os.environ.setdefault('DEFAULTED', 'by library')",
    "opens_file": "import os\nfile = open(os.environ['LINES'])",
    "opens_socket": "import socket\npair = socket.socketpair()",
    "connects_sqlite": "import os, sqlite3\nlink = sqlite3.connect(os.environ['LINES'] + '.db')",
    "draws_uuid": "import uuid\nID = str(uuid.uuid4())",
    "draws_token": "import secrets\nTOKEN = secrets.token_hex()",
    "makes_generator": "import random\ngenerator = random.Random()",
    "seeds": "import random\nrandom.seed(7)",
    "stops_collecting": "import gc\ngc.disable()",
    "configures_logging": "import logging\nlogging.basicConfig(level=17, format='%(name)s')",
    "filters_warnings": "import warnings\nwarnings.simplefilter('ignore', UserWarning)",
    "adds_path": "import sys\nsys.path.append('/added/by/library')",
    "vendored": "ORIGIN = 'installed'",
    "inert": "VALUE = 3",
    "never_reached": "import os\nos.mkdir(os.environ['LINES'] + '.dead')",
}

TRAIN = """
import logging, os, sys, warnings
os.environ["SET_BY_SCRIPT"] = "by script"
sys.path.insert(0, "vendor")
logging.basicConfig(level=5, format="script %(message)s")
warnings.simplefilter("error", UserWarning)
before = sorted({name.partition(".")[0] for name in sys.modules} & set(sys.argv[1:]))
import reads_rank, reads_all, uses_reader, reads_setting, writes_variable, takes_default
import opens_file, opens_socket, connects_sqlite, draws_uuid, draws_token, makes_generator
import seeds, stops_collecting, configures_logging, filters_warnings, adds_path, vendored, inert
import gc, json, random
def dead():
    import never_reached
same = {
    "preloaded": before,
    "rank": [reads_rank.RANK, reads_all.RANK],
    "setting": [reads_setting.VALUE, uses_reader.VALUE],
    "written": [os.environ.get("SET_BY_LIBRARY"), takes_default.VALUE, os.environ["DEFAULTED"]],
    "line": opens_file.file.readline(),
    "random": random.random(),
    "gc": gc.isenabled(),
    "logging": [logging.root.level, logging.root.handlers[0].formatter._fmt],
    "warnings": [entry[0] for entry in warnings.filters[:2]],
    "path": sys.path[-1],
    "vendored": vendored.ORIGIN,
    "inert": inert.VALUE,
    "environ": {name: os.environ.get(name) for name in sorted(os.environ)},
}
kept = [finder for finder in sys.meta_path if type(finder).__name__ == "DeferredModules"]
print(json.dumps({
    "same": same,
    "other": [draws_uuid.ID, draws_token.TOKEN, makes_generator.generator.random()],
    "files": os.readlink(f"/proc/self/fd/{opens_socket.pair[0].fileno()}"),
}))
"""


@pytest.fixture
def libraries(tmp_path: Path, write: Write) -> dict[str, str]:
    for name, text in LIBRARIES.items():
        write(f"site-packages/{name}.py", text)
    write("vendor/vendored.py", "ORIGIN = 'vendored'")
    write("lines.txt", "first\nsecond\nthird\n")
    write("train.py", TRAIN)
    work = tmp_path / "work"
    return {"PYTHONPATH": str(work / "site-packages"), "LINES": str(work / "lines.txt")}


async def test_workers_are_alike_where_fresh_processes_are_and_differ_where_they_do(
    tmp_path: Path, libraries: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """From a nursery that knows nothing, one that has facts, and in the next launch."""
    caplog.set_level(logging.INFO, logger="resile")
    (tmp_path / "work" / "lines.txt.db").touch()
    others: list[list[Any]] = []
    for launch in (1, 2):
        caplog.clear()
        command = script("train.py", *LIBRARIES)
        async with nursery_for(tmp_path, command, env=libraries, policy=EAGER) as harness:
            fresh = json.loads((await asyncio.to_thread(harness.run_fresh)).stdout)
            for times in (1, 2):
                for running in await harness.spawn(2):
                    assert running.worker.warm
                    outcome = await running.outcome()
                    assert outcome.stderr == ""
                    found = json.loads(outcome.stdout)
                    rank = found["same"]["rank"][0]
                    fresh["same"]["rank"] = [rank, rank]
                    fresh["same"]["environ"]["RANK"] = rank
                    assert found["same"] == fresh["same"]
                    others.append([*found["other"], found["files"]])
                if launch == times == 1:
                    await until(lambda: "workers start warm from now on" in caplog.text)
    for values in zip(*others, strict=True):
        assert len(set(values)) == len(others)
    assert not (tmp_path / "work" / "lines.txt.dead").exists()
    (file,) = (tmp_path / "cache" / "resile" / "preload").glob("*.json")
    facts = json.loads(file.read_text())
    assert {"inert", "reads_setting", "filters_warnings", "writes_variable"} <= set(
        facts["approved"]
    )
    unfit = set(LIBRARIES) & set(facts["unfit"])
    assert unfit == {
        "reads_rank", "reads_all", "opens_file", "opens_socket", "connects_sqlite", "draws_uuid",
        "draws_token", "makes_generator", "seeds", "stops_collecting", "configures_logging",
        "adds_path",
    }  # fmt: skip


async def test_a_setting_before_torch_has_its_effect(tmp_path: Path, write: Write) -> None:
    write(
        "train.py",
        """
        import os
        os.environ["OMP_NUM_THREADS"] = "2"
        import torch
        print(torch.get_num_threads())
        """,
    )
    for _ in range(2):
        async with nursery_for(tmp_path, script("train.py")) as harness:
            (running,) = await harness.spawn()
            assert running.worker.warm
            assert (await running.outcome()).stdout == "2\n", "the environment says 1"


async def test_a_setting_before_torch_has_its_effect_whoever_imports_torch(
    tmp_path: Path, write: Write
) -> None:
    write("site-packages/wrapper/__init__.py", "import torch")
    write("site-packages/wrapper/part.py", "")
    write("site-packages/harmless.py", "")
    write(
        "train.py",
        """
        import os
        os.environ["OMP_NUM_THREADS"] = "2"
        import harmless, wrapper.part, torch
        print(torch.get_num_threads())
        """,
    )
    env = {"PYTHONPATH": str(tmp_path / "work" / "site-packages")}
    for _ in range(2):
        async with nursery_for(tmp_path, script("train.py"), env=env) as harness:
            for _ in range(2):
                (running,) = await harness.spawn()
                assert running.worker.warm
                assert (await running.outcome()).stdout == "2\n", "the environment says 1"
                await harness.nursery.learn()
    (file,) = (tmp_path / "cache" / "resile" / "preload").glob("*.json")
    facts = json.loads(file.read_text())
    assert "harmless" in facts["approved"]
    assert facts["needs"]["wrapper"] == ["torch"]
    assert "wrapper" not in facts["unfit"], "it is fit as soon as torch is"


async def test_a_spec_can_be_looked_up_without_importing(tmp_path: Path, write: Write) -> None:
    write(
        "train.py",
        """
        import importlib.util, sys
        spec = importlib.util.find_spec("xml")
        print(spec.origin, list(spec.submodule_search_locations), "xml" in sys.modules)
        import xml.dom
        print(xml.__spec__.loader, xml.dom.__spec__.name, "xml" in sys.modules)
        print(importlib.reload(xml) is xml)
        """,
    )
    async with nursery_for(tmp_path, script("train.py")) as harness:
        (running,) = await harness.spawn()
        assert running.worker.warm
        warm, fresh = await running.outcome(), harness.run_fresh()
    assert warm.stdout.partition("at 0x")[0] == fresh.stdout.partition("at 0x")[0]
    assert warm.stdout.endswith(" xml.dom True\nTrue\n")
