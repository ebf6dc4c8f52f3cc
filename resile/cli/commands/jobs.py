"""``resile jobs``: all jobs of this user on this machine, and those of a cluster."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import click

from resile.cli.options.cluster import ClusterOptions, cluster_options, connect
from resile.cli.options.types import output_option
from resile.cli.output.format import age, count
from resile.client.cluster.cluster import is_configured
from resile.client.local import LocalJob
from resile.job.view import JobView
from resile.kube.errors import KubeError
from resile.kube.resources import KubeObject
from resile.local.jobdir import all_jobs
from resile.system.loop_thread import run_in_thread

CLUSTER_TIMEOUT = 2.0
"""Timeout in seconds for a cluster that the user did not ask for."""

LOCAL, KUBERNETES = "local", "kubernetes"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--all-namespaces", "-A", "everywhere", is_flag=True, help="Jobs of all namespaces.")
@output_option("table", "json", help="Output format.")
@cluster_options
def jobs(everywhere: bool, output: str, where: ClusterOptions) -> None:
    """List jobs on this machine, and on the cluster if one is configured, finished ones included.

    With -n, -A, --context or --kubeconfig only the cluster's. Crashed means that the job's
    `resile up` was killed; whatever it ran has ended with it.

    \b
    Examples:
      resile jobs
      resile jobs -o json
      resile jobs -A --context production
    """
    if where.given or everywhere:
        rows = _of_cluster(where, everywhere=everywhere, within=None)
    else:
        rows = run_in_thread(_of_this_machine())
        rows += _of_cluster_if_any()
    if output == "json":
        click.echo(json.dumps(rows, indent=2))
    elif not rows:
        click.echo(f"There are no jobs. {_hint(where, everywhere)}")
    else:
        _print(rows, namespaces=everywhere)


def _hint(where: ClusterOptions, everywhere: bool) -> str:
    how = "submit" if where.given or everywhere else "up"
    return f"Start one with 'resile {how} job.yaml'."


def _of_cluster_if_any() -> list[dict[str, Any]]:
    """Return the jobs of the configured cluster, if any. Not asked for, so a failure only warns."""
    if not is_configured():
        return []
    try:
        return _of_cluster(ClusterOptions(), everywhere=False, within=CLUSTER_TIMEOUT)
    except KubeError as error:
        from resile.cli.output.explain import user_message

        click.echo(f"Warning: no jobs of the cluster: {user_message(error)}", err=True)
        return []


def _of_cluster(
    where: ClusterOptions, *, everywhere: bool, within: float | None
) -> list[dict[str, Any]]:
    cluster = connect(where)
    listed = cluster.call(cluster.cluster.jobs(everywhere=everywhere, within=within))
    return [_of_object(raw) for raw in listed]


def _of_object(raw: KubeObject) -> dict[str, Any]:
    from resile.client.cluster.job_object import is_over, phase_of, view_of

    view = view_of(raw, now=time.time())
    row = _summary(view, phase=phase_of(raw), running=not is_over(raw))
    return {**row, "platform": KUBERNETES, "namespace": raw["metadata"]["namespace"]}


async def _of_this_machine() -> list[dict[str, Any]]:
    jobs = [LocalJob(folder) for folder in all_jobs()]
    return list(await asyncio.gather(*map(_of_local_job, jobs)))


async def _of_local_job(job: LocalJob) -> dict[str, Any]:
    view = await job.view()
    row = _summary(view, phase=await job.phase(view), running=await job.running())
    return {**row, "name": job.name, "platform": LOCAL, "namespace": None}


def _summary(view: JobView, *, phase: str, running: bool) -> dict[str, Any]:
    roles = view.status.roles.values() if view.status else ()
    return {
        "name": view.name,
        "phase": phase,
        "ready": sum(role.succeeded + role.active * running for role in roles),
        "wanted": sum(role.wanted for role in roles),
        "restarts": restarts(view),
        "step": _step(view),
        "created": view.created,
    }


def restarts(view: JobView) -> int:
    """Return the number of replaced nodes plus that of rounds lost to failing workers."""
    replaced = sum(r.restarts for r in view.status.roles.values()) if view.status else 0
    return replaced + sum(training.restarts for training in view.trainings.values())


def _step(view: JobView) -> int | None:
    """Return the step that the master reports, or the last one that the operator wrote."""
    if view.training is not None:
        return view.training.step
    return view.status.step if view.status else None


def _print(rows: list[dict[str, Any]], *, namespaces: bool) -> None:
    """Print the jobs; platform and namespace are columns only where jobs differ in them."""
    from resile.cli.output.tables import new_console, new_table, phase_text

    places = {
        "PLATFORM": len({row["platform"] for row in rows}) > 1,
        "NAMESPACE": namespaces or len({row["namespace"] for row in rows} - {None}) > 1,
    }
    columns = [name for name, shown in places.items() if shown]
    table = new_table(
        *(*columns, "NAME", "PHASE", "NODES", "RESTARTS", "STEP", "AGE"),
        numbers=("RESTARTS", "STEP"),
    )
    for row in rows:
        table.add_row(
            *(row[name.lower()] or "-" for name in columns),
            row["name"],
            phase_text(row["phase"]),
            f"{row['ready']}/{row['wanted']}",
            str(row["restarts"]),
            count(row["step"]),
            age(row["created"]),
        )
    new_console().print(table)
