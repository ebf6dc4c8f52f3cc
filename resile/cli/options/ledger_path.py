"""The location of a job's ledger, found by the job's name.

A job of `resile up` has a folder of its own, with its ledger unless its manifest names another
place. A job of `resile run` has no folder that outlives it: with ``--ledger`` it writes to
``<state_home>/ledgers/<name>``, on each machine what that machine's workers trained.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from resile.launch.state_dir import state_home
from resile.ledger import FOLDER_VARIABLE

if TYPE_CHECKING:
    from resile.client.local import LocalJob

__all__ = ["find_ledger", "ledger_asked_for"]


def ledger_asked_for(flags: dict[str, Any]) -> Path | None:
    """Return the path for `resile run --rdzv-id NAME --ledger`; None without the flag."""
    if not flags["ledger"]:
        return None
    if not flags["rdzv_id"]:
        raise click.UsageError("--ledger: say by --rdzv-id NAME which job it is the ledger of")
    return _ledger_of_run(flags["rdzv_id"])


def find_ledger(name: str) -> Path:
    """Return the folder ``name``, or else the ledger of that job; raises ClickException."""
    if Path(name).is_dir():
        return Path(name)
    if "/" in name:
        raise click.UsageError(f"there is no folder {name}")
    of_run = _ledger_of_run(name)
    return _ledger_of_up(name, otherwise=of_run if of_run.is_dir() else None)


def _ledger_of_run(name: str) -> Path:
    quoted = quote(name, safe="")
    hidden = quoted.startswith(".")  # this includes the parent folder, ..
    return state_home() / "ledgers" / (f"%2E{quoted[1:]}" if hidden else quoted)


def _ledger_of_up(name: str, *, otherwise: Path | None) -> Path:
    from resile.client.local import find_local_job
    from resile.local.jobdir import JobDir

    if otherwise is not None and not JobDir(name).exists():
        return otherwise
    job = find_local_job(name)
    found = _in_manifest(job) or (job.folder.ledger if job.folder.ledger.is_dir() else otherwise)
    if found is None:
        raise click.ClickException(
            f"the job '{name}' has no ledger: its workers write one when an elastic sampler or a "
            f"ShardedDataset trains, unless {FOLDER_VARIABLE} is empty or names another folder"
        )
    return found


def _in_manifest(job: LocalJob) -> Path | None:
    """Return the folder that the env of a role names; None if none does."""
    from resile.job.manifest.parse import job_from_data
    from resile.system.loop_thread import run_in_thread

    manifest = run_in_thread(job.view()).manifest
    roles = job_from_data(manifest).spec.roles.values() if manifest else ()
    named = (role.environment.get(FOLDER_VARIABLE) for role in roles)
    return next((Path(folder) for folder in named if folder), None)
