"""`python -m devcluster`: a real Kubernetes cluster on this machine, for development and tests."""

import functools
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec

import click
from rich.console import Console

from devcluster.build import ensure_binaries
from devcluster.cluster import Cluster
from devcluster.errors import ClusterError
from devcluster.layout import MAX_NODES, Layout
from devcluster.machine import check_machine
from devcluster.progress import Progress
from devcluster.status import show

P = ParamSpec("P")


def main() -> None:
    """Run the command line; SIGTERM ends it like Ctrl-C."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    cli()


def command(function: Callable[P, None]) -> Callable[P, None]:
    """Turn a ClusterError into one line and exit code 1."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            function(*args, **kwargs)
        except ClusterError as error:
            raise click.ClickException(str(error)) from error

    return wrapped


@click.group(help=__doc__)
def cli() -> None: ...


@cli.command()
@click.option(
    "--nodes",
    type=click.IntRange(1, MAX_NODES),
    default=2,
    show_default=True,
    help="How many nodes; a running cluster gets those it lacks and keeps those it has.",
)
@click.option(
    "--binaries",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder with Kubernetes' binaries, of any version; otherwise those built here.",
)
@command
def up(nodes: int, binaries: Path | None) -> None:
    """Bring the cluster up, or repair it."""
    progress = Progress(click.echo)
    cluster = Cluster.up(nodes=nodes, binaries=binaries, progress=progress)
    click.echo(f"\nThe cluster is up. To use it:\n\n  export KUBECONFIG={cluster.kubeconfig}")


@cli.command()
@command
def down() -> None:
    """Remove the cluster and every trace of it; binaries and images stay in the cache."""
    Cluster.down(progress=Progress(click.echo))


@cli.command()
@command
def status() -> None:
    """Show processes and nodes; exit code 0 only if all are up and Ready."""
    if not show(Cluster.find(), Console()):
        sys.exit(1)


@cli.command()
@command
def build() -> None:
    """Build Kubernetes' binaries into the cache; `up` does it when they are missing."""
    check_machine()
    layout = Layout.default()
    ensure_binaries(layout, progress=Progress(click.echo))
    click.echo(f"The binaries are in {layout.built.folder}.")


@cli.command("node-stop")
@click.argument("name")
@command
def node_stop(name: str) -> None:
    """Lose a node: kill all its processes and containers."""
    Cluster.find().stop_node(name)


@cli.command("node-start")
@click.argument("name")
@command
def node_start(name: str) -> None:
    """Bring a lost node back."""
    Cluster.find().start_node(name)


@cli.command("component-stop")
@click.argument("name")
@command
def component_stop(name: str) -> None:
    """End one component, such as apiserver, etcd or node-a/kubelet."""
    Cluster.find().stop(name)


@cli.command("component-start")
@click.argument("name")
@command
def component_start(name: str) -> None:
    """Bring a component back."""
    Cluster.find().start(name)


if __name__ == "__main__":
    main()
