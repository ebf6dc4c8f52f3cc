"""A script finds the same environment under `resile run` as under torchrun."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.local.jobs import SCRIPTS, Job

SCRIPT = str(SCRIPTS / "environment.py")
OURS_TO_CHOOSE = {
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_ERROR_FILE",
}
"""Set under both, with values that each launcher chooses."""


def reports(folder: Path) -> dict[int, dict[str, Any]]:
    return {int(p.stem): json.loads(p.read_text()) for p in folder.glob("*.json")}


def test_every_variable_of_torchrun_is_there_with_the_same_value(job: Job, tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    theirs.mkdir()
    ours.mkdir()
    flags = ["--standalone", "--nproc-per-node", "2", "--max-restarts", "3"]
    subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *flags, SCRIPT, "--some", "args"],
        check=True,
        env=job.env(REPORT=str(theirs)),
        capture_output=True,
    )
    node = job.start(*flags, script=SCRIPT, args=("--some", "args"), REPORT=str(ours), nproc=2)
    assert node.wait() == 0, node.output
    expected, found = reports(theirs), reports(ours)
    assert sorted(found) == sorted(expected) == [0, 1]
    for rank, report in expected.items():
        there, here = report["environment"], found[rank]["environment"]
        assert not {name for name in there if name not in here}
        differing = {
            name
            for name, value in there.items()
            if name not in OURS_TO_CHOOSE and name != "REPORT" and here[name] != value
        }
        assert not differing
        assert found[rank]["argv"] == report["argv"]
        assert found[rank]["path0"] == report["path0"]


def test_flags_may_come_from_pet_variables(job: Job, tmp_path: Path) -> None:
    node = job.start(
        script=SCRIPT,
        endpoint=False,
        REPORT=str(tmp_path),
        PET_MAX_RESTARTS="7",
        PET_RDZV_ID="named",
        PET_RDZV_ENDPOINT=job.endpoint,
    )
    assert node.wait() == 0, node.output
    environment = reports(tmp_path)[0]["environment"]
    assert environment["TORCHELASTIC_MAX_RESTARTS"] == "7"
    assert environment["TORCHELASTIC_RUN_ID"] == "named"


def test_underscores_are_as_good_as_dashes(job: Job, tmp_path: Path) -> None:
    node = job.start("--max_restarts=5", script=SCRIPT, REPORT=str(tmp_path))
    assert node.wait() == 0, node.output
    assert reports(tmp_path)[0]["environment"]["TORCHELASTIC_MAX_RESTARTS"] == "5"


def test_a_flag_without_meaning_is_accepted_and_said_to_be_ignored(
    job: Job, tmp_path: Path
) -> None:
    node = job.start(
        *("--monitor-interval", "5", "--start_method=fork", "--rdzv-conf", "close_timeout=3"),
        script=SCRIPT,
        REPORT=str(tmp_path),
    )
    assert node.wait() == 0, node.output
    for name in ("--monitor-interval", "--start-method", "close_timeout"):
        assert f"{name} is ignored" in node.output


def test_a_program_may_be_run_without_python(job: Job, tmp_path: Path) -> None:
    node = job.start(
        "--no-python",
        script="/bin/sh",
        args=("-c", f"echo rank $RANK of $WORLD_SIZE > {tmp_path}/$RANK"),
        nproc=2,
    )
    assert node.wait() == 0, node.output
    assert (tmp_path / "1").read_text() == "rank 1 of 2\n"


def test_the_local_rank_is_a_macro_in_the_arguments(job: Job, tmp_path: Path) -> None:
    script = tmp_path / "arguments.py"
    script.write_text("import sys; print(sys.argv[1:])")
    node = job.start(script=str(script), args=("--device=${local_rank}", "$HOME", "$$"), nproc=2)
    assert node.wait() == 0, node.output
    for rank in (0, 1):
        assert f"[rank{rank}] ['--device={rank}', '$HOME', '$']" in node.output


def test_run_path_goes_before_no_python(job: Job, tmp_path: Path) -> None:
    script = tmp_path / "plain.py"
    script.write_text("print('run by', __name__)")
    node = job.start("--run-path", "--no-python", script=str(script))
    assert node.wait() == 0, node.output
    assert "[rank0] run by __main__" in node.output


def test_a_module_may_be_run(job: Job, tmp_path: Path) -> None:
    package = tmp_path / "pack"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "tool.py").write_text("import sys; print('module', __name__, sys.argv[1:])")
    command = [sys.executable, "-m", "resile", "run", "-m", "pack.tool", "x"]
    run = subprocess.run(command, env=job.env(), cwd=tmp_path, capture_output=True, text=True)
    assert "[rank0] module __main__ ['x']" in run.stdout, run.stderr


def test_the_error_file_of_a_worker_is_its_last_word(job: Job, tmp_path: Path) -> None:
    passed_on = tmp_path / "error.json"
    node = job.start(
        *("--max-restarts", "0"),
        script="recorded_error.py",
        TORCHELASTIC_ERROR_FILE=str(passed_on),
    )
    assert node.wait() == 1
    report = node.output[node.output.index("The job failed") :]
    assert "ValueError: recorded and reported" in report
    message = json.loads(passed_on.read_text())["message"]
    assert message["message"] == "ValueError: recorded and reported"
    assert "ValueError: recorded and reported" in message["extraInfo"]["py_callstack"]
    assert message["errorCode"] == 1


def test_a_script_that_cannot_be_imported_fails_at_once(job: Job, tmp_path: Path) -> None:
    script = tmp_path / "broken.py"
    script.write_text("import torch\nimport a_module_that_is_not_there\n")
    node = job.start("--max-restarts", "3", script=str(script), nproc=2)
    assert node.wait() == 1
    report = node.output[node.output.index("The job failed") :]
    assert "cannot run the script (ModuleNotFoundError: No module named" in report
    assert "no restart would change that" in report
    assert "round 2" not in node.output
