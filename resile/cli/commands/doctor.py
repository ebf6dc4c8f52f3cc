"""``resile doctor``: check this machine and the cluster, with advice for each problem."""

from __future__ import annotations

import click
import msgspec
from rich.table import Table
from rich.text import Text

from resile.cli.options.cluster import ClusterOptions, cluster_options, connect
from resile.cli.options.types import output_option
from resile.cli.output.tables import new_console
from resile.platform.finding import Finding, Level
from resile.wire.endpoint import DEFAULT_PORT, EndpointError, parse_endpoint

__all__ = ["doctor"]

STYLES = {
    Level.OK: "green",
    Level.NOTE: "cyan",
    Level.WARNING: "yellow",
    Level.ERROR: "bold red",
}


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--rdzv-endpoint",
    metavar="HOST:PORT",
    default=f"127.0.0.1:{DEFAULT_PORT}",
    show_default=True,
    help="Check that a master could listen here.",
)
@output_option("table", "json")
@cluster_options
def doctor(rdzv_endpoint: str, output: str, where: ClusterOptions) -> None:
    """Check this machine, and the cluster if one is configured.

    Each line is ok, a note (not needed for training), a warning (jobs run with limitations) or an
    error (jobs cannot run), with advice. The exit code is 1 if there is an error.

    \b
    Examples:
      resile doctor
      resile doctor -n team --context production
      resile doctor -o json
    """
    from resile.local.diagnosis import diagnose_machine

    try:
        endpoint = parse_endpoint(rdzv_endpoint)
    except EndpointError as error:
        raise click.BadParameter(str(error), param_hint="--rdzv-endpoint") from None
    findings = [*diagnose_machine(endpoint), *_cluster(where)]
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(findings), indent=2).decode())
    else:
        _print(findings)
    if any(finding.level is Level.ERROR for finding in findings):
        raise SystemExit(1)


def _cluster(where: ClusterOptions) -> list[Finding]:
    from resile.client.cluster.cluster import is_configured
    from resile.kube.errors import KubeError

    if not where.given and not is_configured():
        advice = "only needed for jobs on Kubernetes; kubectl's configuration is used"
        return [Finding("cluster", "kubeconfig", Level.NOTE, "none was found", advice)]
    try:
        cluster = connect(where)
    except KubeError as error:
        return [Finding("cluster", "kubeconfig", Level.ERROR, str(error))]
    from resile.client.cluster.diagnosis import diagnose_cluster

    return cluster.call(diagnose_cluster(cluster.cluster.client))


def _print(findings: list[Finding]) -> None:
    console = new_console()
    for area in dict.fromkeys(finding.area for finding in findings):
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_column()
        for finding in (one for one in findings if one.area == area):
            level = Text(finding.level.value, style=STYLES[finding.level])
            said = Text(finding.found)
            if finding.advice:
                said.append(f"\n{finding.advice}", style="dim")
            table.add_row(level, finding.check, said)
        console.print(Text(area.capitalize(), style="bold"))
        console.print(table)
        console.print()
    console.print(_summary(findings))


def _summary(findings: list[Finding]) -> Text:
    counts = {
        level: sum(finding.level is level for finding in findings)
        for level in (Level.ERROR, Level.WARNING)
    }
    said = [
        f"{number} {level.value}{'' if number == 1 else 's'}"
        for level, number in counts.items()
        if number
    ]
    if not said:
        return Text("No problems found.", style="green")
    worst = Level.ERROR if counts[Level.ERROR] else Level.WARNING
    return Text(f"{' and '.join(said)} found.", style=STYLES[worst])
