"""`python -m bench`: the commands. Parsing and printing only."""

import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from bench.campaign import Campaign, chosen_launchers, prepared
from bench.checkpoints.catalogue import CHECKPOINTS
from bench.checkpoints.systems import CHECKPOINT_SYSTEMS
from bench.document import publish as write_results
from bench.launchers import LAUNCHERS, Launcher
from bench.many_jobs.assess import assessed_load, assessed_looks
from bench.many_jobs.large import look_trial
from bench.many_jobs.load import load_trial
from bench.measures import LAUNCH, RECOVERY, STEADY, Experiment
from bench.picture import draw_pictures
from bench.plots import plot as draw
from bench.progress import progress
from bench.report import show as print_run
from bench.report import table
from bench.results import MeasureResult, Run, Strip, load, now, save, this_machine
from bench.scale.curves import plot_curves
from bench.scale.sweep import assessed, sweep
from bench.scale.systems import SYSTEMS
from bench.shards.compare import assessed_shards, compare
from bench.shards.systems import SHARD_SYSTEMS
from bench.targets import OURS
from resile.job.limits import MAX_NODES

RESULTS = Path(__file__).with_name("results")
DOCS = Path(__file__).parent.parent / "docs"

console = Console()


def main() -> None:
    """Run the command line; SIGTERM ends it like Ctrl-C, with everything cleaned up."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    cli()


@click.group(help=__doc__)
def cli() -> None: ...


def _known_peers(_context: click.Context, _option: click.Parameter, value: str) -> list[str]:
    names = [name.strip() for name in value.split(",") if name.strip()]
    known = {launcher.name for launcher in LAUNCHERS} | {one.family for one in LAUNCHERS}
    if unknown := [name for name in names if name not in known]:
        raise click.BadParameter(f"no launcher {unknown[0]!r}; known: {', '.join(sorted(known))}")
    return names


def _sizes(_context: click.Context, _option: click.Parameter, value: str) -> list[int]:
    try:
        sizes = [int(part) for part in value.split(",")]
    except ValueError:
        raise click.BadParameter(f"{value!r} is no list of numbers, such as 250,1000") from None
    if min(sizes) < 2:
        raise click.BadParameter("a round that loses an agent needs at least 2")
    return sizes


peers_option = click.option(
    "--peers",
    default="torchrun,dlrover,resile",
    show_default=True,
    callback=_known_peers,
    help="Launchers, by name or family, with commas between them.",
)
out_option = click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=RESULTS,
    help="Folder for JSON and PNG files. [default: bench/results]",
)
keep_option = click.option(
    "--keep-logs",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep every job's logs and step records in this folder.",
)


F = Callable[..., None]


def _options(experiments: Sequence[Experiment], *, noun: str, times: int) -> Callable[[F], F]:
    """The options all measuring commands share; `noun` names what is repeated."""
    only = click.option(
        "--only",
        multiple=True,
        type=click.Choice([experiment.name for experiment in experiments]),
        help="Run only this experiment; may be repeated.",
    )
    repeats = click.option(
        f"--{noun}",
        "times",
        default=times,
        show_default=True,
        type=click.IntRange(min=1),
        help="Times each experiment is run under each launcher.",
    )

    def add(command: F) -> F:
        for option in (keep_option, out_option, peers_option, only, repeats):
            command = option(command)
        return command

    return add


@cli.command()
@_options(RECOVERY, noun="kills", times=5)
def recovery(peers: Sequence[str], **options: Any) -> None:
    """Kill workers, nodes and masters; time to the last rank's next step."""
    _measure("recovery", RECOVERY, candidates=chosen_launchers(peers), **options)


@cli.command()
@_options(LAUNCH, noun="launches", times=5)
def launch(peers: Sequence[str], **options: Any) -> None:
    """Launch to first step, with 2 and with 8 workers on a node."""
    _measure("launch", LAUNCH, candidates=chosen_launchers(peers), **options)


@cli.command()
@_options(STEADY, noun="windows", times=3)
def steady(peers: Sequence[str], **options: Any) -> None:
    """CPU of agents and masters while training goes on."""
    _measure("steady", STEADY, candidates=chosen_launchers(peers), **options)


@cli.command()
@click.option(
    "--sizes",
    default="250,500,1000,2000,4000",
    show_default=True,
    callback=_sizes,
    help="Numbers of agents Resile is measured with.",
)
@click.option(
    "--peer-sizes",
    default="250,1000",
    show_default=True,
    callback=_sizes,
    help="Numbers of agents the others are measured with.",
)
@click.option("--times", default=3, show_default=True, type=click.IntRange(min=1))
@peers_option
@out_option
def scale(sizes: list[int], peer_sizes: list[int], times: int, peers: list[str], out: Path) -> None:
    """Thousands of simulated agents form a round and lose one."""
    started, machine = now(), this_machine()
    systems, skipped = prepared([one for one in SYSTEMS if one.family in peers], console)
    plan = [
        (system, size)
        for system in systems
        for size in (sizes if system.family == OURS else peer_sizes)
    ]
    measures = assessed(sweep(plan, times=times, console=console), systems)
    run = Run("scale", started, machine, measures, skipped=skipped)
    save(run, out / "scale.json")
    plot_curves(run, out / "scale.png")
    print_run(run, console)


@cli.command()
@click.option("--seconds", default=10.0, show_default=True, help="How long each trial leases.")
@click.option("--times", default=3, show_default=True, type=click.IntRange(min=1))
@peers_option
@out_option
def shards(seconds: float, times: int, peers: list[str], out: Path) -> None:
    """Shards leased by one master with 64 clients."""
    started, machine = now(), this_machine()
    systems, skipped = prepared([one for one in SHARD_SYSTEMS if one.family in peers], console)
    trials = compare(systems, times=times, seconds=seconds, console=console)
    run = Run("shards", started, machine, assessed_shards(trials, systems), skipped=skipped)
    save(run, out / "shards.json")
    draw(run, out / "shards.png")
    print_run(run, console)


@cli.command()
@click.option(
    "--jobs",
    default=100,
    show_default=True,
    type=click.IntRange(min=0),
    help="Jobs at once; 0: only the large job.",
)
@click.option("--nodes", default=4, show_default=True, type=click.IntRange(min=1))
@click.option(
    "--large",
    default=5000,
    show_default=True,
    type=click.IntRange(1, MAX_NODES),
    help="Nodes of the one job whose status is measured, without an API server.",
)
@click.option("--times", default=3, show_default=True, type=click.IntRange(min=1))
@out_option
def operator(jobs: int, nodes: int, large: int, times: int, out: Path) -> None:
    """An operator with many jobs at once, against a real API server without kubelets, and one
    reconciliation of a large job."""
    if jobs:
        started, machine = now(), this_machine()
        trials = []
        with progress(console, "operator", total=times) as advance:
            for turn in range(times):
                advance(f"{jobs} jobs of {nodes} nodes, {turn + 1} of {times}")
                trials.append(load_trial(jobs=jobs, nodes=nodes))
        run = Run("operator", started, machine, assessed_load(trials, jobs=jobs, nodes=nodes))
        _keep(run, out / "operator.json")
    started, machine = now(), this_machine()
    looks = [look_trial(nodes=large) for _ in range(times)]
    _keep(Run("large", started, machine, assessed_looks(looks, nodes=large)), out / "large.json")


def _keep(run: Run, path: Path) -> None:
    save(run, path)
    draw(run, path.with_suffix(".png"))
    print_run(run, console)


@cli.command()
@_options(CHECKPOINTS, noun="times", times=5)
def checkpoints(peers: Sequence[str], **options: Any) -> None:
    """Cost of saving during training, and of restoring after a kill or a lost node."""
    systems = [one for one in CHECKPOINT_SYSTEMS if one.family in peers]
    _measure("checkpoints", CHECKPOINTS, candidates=systems, **options)


@cli.command()
@out_option
def show(out: Path) -> None:
    """Print the tables of saved runs."""
    for path in _saved(out):
        print_run(load(path), console)


@cli.command()
@click.option(
    "--images",
    type=click.Path(file_okay=False, path_type=Path),
    default=DOCS / "images",
    help="Folder for the README's picture. [default: docs/images]",
)
@out_option
def plot(images: Path, out: Path) -> None:
    """Draw saved runs again, and the picture of recovery for the README."""
    for path in _saved(out):
        run = load(path)
        (plot_curves if run.command == "scale" else draw)(run, path.with_suffix(".png"))
        console.print(f"drew {path.with_suffix('.png')}")
        if run.command == "recovery":
            for picture in draw_pictures(run, images):
                console.print(f"drew {picture}")


@cli.command()
@out_option
def publish(out: Path) -> None:
    """Write the results of saved runs into docs/benchmarks.md."""
    write_results([load(path) for path in _saved(out)], DOCS / "benchmarks.md")
    console.print(f"wrote {DOCS / 'benchmarks.md'}")


def _measure(
    command: str,
    experiments: Sequence[Experiment],
    *,
    candidates: Sequence[Launcher],
    times: int,
    only: Sequence[str],
    out: Path,
    keep_logs: Path | None,
) -> None:
    """Run experiments, saving after each one, so that an interrupted run keeps what it has."""
    started, machine = now(), this_machine()
    launchers, skipped = prepared(candidates, console)
    campaign = Campaign(launchers, times, console, keep=keep_logs)
    measures: list[MeasureResult] = []
    strips: list[Strip] = []
    for experiment in experiments:
        if only and experiment.name not in only:
            continue
        results, steps = campaign.run(experiment)
        measures += results
        strips += steps
        for result in results:
            console.print(table(result))
        run = Run(command, started, machine, measures, strips, skipped)
        save(run, out / f"{command}.json")
        draw(run, out / f"{command}.png")
    console.print(f"written to {out / command}.json and .png")


def _saved(out: Path) -> list[Path]:
    found = sorted(out.glob("*.json"))
    if not found:
        raise click.ClickException(f"no results in {out}; run `python -m bench recovery` first")
    return found


if __name__ == "__main__":
    main()
