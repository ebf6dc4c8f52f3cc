"""`from migration import migrator` works in all workers; a user's module takes precedence."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.local.jobs import Job

IMPORT = """
import sys
from migration import migrator
environ = __import__("os").environ
print(type(migrator).__module__, "PYTHONPATH" in environ, flush=True)
assert "RESILE_LATE_MODULES" not in environ
"""
WARM: tuple[str, ...] = ()
COLD = ("--preload", "none")


def run(job: Job, folder: Path, *flags: str, **environment: str) -> str:
    script = folder / "train.py"
    script.write_text(IMPORT)
    job.environment.update(environment)
    node = job.start(*flags, script=str(script), endpoint=False)
    assert node.wait() == 0, node.output
    return node.output


@pytest.mark.parametrize("flags", [WARM, COLD], ids=["warm", "cold"])
def test_the_import_is_served(job: Job, tmp_path: Path, flags: tuple[str, ...]) -> None:
    assert "resile.train.migrate.migrator False" in run(job, tmp_path, *flags)


@pytest.mark.parametrize("flags", [WARM, COLD], ids=["warm", "cold"])
def test_a_module_beside_the_script_wins(job: Job, tmp_path: Path, flags: tuple[str, ...]) -> None:
    (tmp_path / "migration.py").write_text("class Mine: pass\nmigrator = Mine()\n")
    assert "migration False" in run(job, tmp_path, *flags)


@pytest.mark.parametrize("flags", [WARM, COLD], ids=["warm", "cold"])
def test_a_module_on_the_path_wins(job: Job, tmp_path: Path, flags: tuple[str, ...]) -> None:
    library = tmp_path / "library"
    library.mkdir()
    (library / "migration.py").write_text("class Mine: pass\nmigrator = Mine()\n")
    assert "migration True" in run(job, tmp_path, *flags, PYTHONPATH=str(library))
