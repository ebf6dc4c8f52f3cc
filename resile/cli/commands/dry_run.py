"""``resile submit --dry-run``: a YAML stream of the objects, and their validation by a cluster."""

from __future__ import annotations

from typing import Any

import click
import yaml

from resile.cli.commands.submit import placed
from resile.cli.options.cluster import ClusterOptions, connect
from resile.client.cluster.apply import validate
from resile.client.cluster.cluster import is_configured
from resile.client.cluster.manifest_source import ManifestSource
from resile.client.cluster.preview import OPERATORS_IMAGE, preview
from resile.client.sync import SyncCluster
from resile.kube.errors import ApiUnreachable, ConfigError

__all__ = ["dry_run"]

NO_CLUSTER_NAMESPACE = "default"


def dry_run(written: ManifestSource, where: ClusterOptions) -> None:
    """Print the objects, then validate them: the user can read what is refused."""
    cluster, why_not = _cluster(where)
    usual = NO_CLUSTER_NAMESPACE if cluster is None else cluster.namespace
    job = placed(written, where, usual=usual)
    objects = preview(job)
    if job.spec.master.image is None and len(objects) > 1:
        click.echo(f"# {OPERATORS_IMAGE}: the operator puts its own image there.")
    click.echo(
        yaml.dump_all(objects, Dumper=_Dumper, sort_keys=False, allow_unicode=True), nl=False
    )
    if cluster is None:
        click.echo(f"Not validated by a server: {why_not}.", err=True)
        return
    try:
        left_out = cluster.call(validate(cluster.cluster, objects))
    except ApiUnreachable as error:
        if where.given:
            raise
        click.echo(f"Not validated by a server: {error}.", err=True)
        return
    click.echo(f"Validated by the API server of {cluster.name}; nothing was created.", err=True)
    for note in left_out:
        click.echo(f"Not all of it: {note}.", err=True)


def _cluster(where: ClusterOptions) -> tuple[SyncCluster | None, str]:
    """Return the cluster to ask; or None, and the reason."""
    if not where.given and not is_configured():
        return None, "no cluster is configured"
    try:
        return connect(where), ""
    except ConfigError as error:
        if where.context or where.kubeconfig:
            raise
        return None, str(error)


class _Dumper(yaml.SafeDumper):
    """Writes each object as a document of its own, without YAML aliases."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **{**settings, "explicit_start": True})

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True
