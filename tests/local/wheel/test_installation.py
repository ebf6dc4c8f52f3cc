"""The result of `pip install resile[torch]`: a wheel in a separate environment.

The wheel is built from the checkout and installed where nothing else of the checkout can be
imported. torch and the other dependencies are those of the environment that runs the tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from resile.cli.main import COMMANDS

CHECKOUT = Path(__file__).parents[3]
MANIFEST = """
apiVersion: resile.dev/v1alpha1
kind: ElasticJob
metadata: {name: digits}
spec:
  roles:
    worker:
      replicas: 1
      procsPerNode: 2
      script: train.py
"""


@dataclass(frozen=True)
class Installation:
    """An environment with the wheel, and a folder to work in."""

    environment: Path
    folder: Path

    def run(self, program: str, *words: str, **variables: str) -> str:
        """Run a program of the environment, which must succeed; return its output."""
        kept = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
        home = {"RESILE_HOME": str(self.folder / "home"), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [str(self.environment / "bin" / program), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**kept, **home, **variables},
            cwd=self.folder,
            timeout=200,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    root = tmp_path_factory.mktemp("wheel")
    build = (sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory")
    subprocess.run([*build, str(root)], cwd=CHECKOUT, check=True)
    environment = root / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    (wheel,) = root.glob("*.whl")
    pip = (sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python"))
    subprocess.run([*pip, "install", "--no-deps", "--no-index", str(wheel)], check=True)
    # A path from such a file is searched, but its own such files are ignored: the checkout, which
    # has an editable installation there, is not found.
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    folder = root / "work"
    folder.mkdir()
    shutil.copy(Path(__file__).with_name("train.py"), folder)
    yield Installation(environment, folder)
    shutil.rmtree(root)


def test_nothing_comes_from_the_checkout(installed: Installation) -> None:
    said = installed.run("python", "-c", "import resile, torch; print(resile.__file__)")
    assert Path(said.strip()).is_relative_to(installed.environment)


def test_a_training_runs_and_its_checkpoints_and_samples_are_proven(
    installed: Installation,
) -> None:
    run = ("resile", "run", "--nproc-per-node", "2", "train.py")
    assert "trained 12 steps" in installed.run(*run, RESILE_LEDGER="ledger")
    assert "whole" in installed.run("resile", "ckpt", "ls", "checkpoints")
    installed.run("resile", "ckpt", "verify", "checkpoints")
    installed.run("resile", "ckpt", "export", "checkpoints", "model.pt")
    assert (installed.folder / "model.pt").stat().st_size > 0
    assert "exactly once" in installed.run("resile", "data", "check", "ledger", "--epochs", "1")


def test_a_whole_job_runs_from_its_manifest(installed: Installation) -> None:
    shutil.rmtree(installed.folder / "checkpoints", ignore_errors=True)
    (installed.folder / "job.yaml").write_text(MANIFEST)
    said = installed.run("resile", "up", "--logs", "job.yaml")
    assert "trained 12 steps" in said
    assert "The job succeeded" in said
    assert "Succeeded" in installed.run("resile", "jobs")


def test_every_command_can_be_asked_for_help(installed: Installation) -> None:
    for name in COMMANDS:
        assert f"Usage: resile {name}" in installed.run("resile", name, "--help")
