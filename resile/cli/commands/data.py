"""``resile data check``: check a job's ledger for samples trained twice or never."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from resile.cli.options.types import output_option
from resile.group_name import describe_group

if TYPE_CHECKING:
    from resile.ledger.check import EpochVerdict, IndexPlaces, LedgerVerdict, StreamVerdict

SHOWN = 10
"""Maximum number of faults of each kind in the text; the JSON output has more."""


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def data() -> None:
    """Check that each sample was trained exactly once."""


@data.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("ledger", metavar="JOB|FOLDER")
@click.option("--epochs", type=click.IntRange(1), metavar="N", help="Require N complete epochs.")
@output_option("text", "json")
def check(ledger: str, epochs: int | None, output: str) -> None:
    """Check in a ledger that each index of each epoch was trained exactly once.

    Jobs of `resile up` write a ledger by themselves, those of `resile run` with --ledger and an
    --rdzv-id; both are found by the job's name. With RESILE_LEDGER=FOLDER in its environment any
    other job writes one too. Steps that were trained and lost by a crash do not count; their
    repetition does. The exit code is 1 if an index counts twice, is missing, or was not written
    down; the last epoch may be under way. Groups of a job are judged each for itself.

    \b
    Examples:
      resile data check digits
      resile data check /shared/ledger --epochs 3
      resile data check /shared/ledger -o json
    """
    from resile.cli.options.ledger_path import find_ledger
    from resile.ledger import LedgerError, read_ledger
    from resile.ledger import check as judge

    try:
        verdict = judge(read_ledger(find_ledger(ledger)), epochs=epochs)
    except LedgerError as error:
        raise click.ClickException(str(error)) from None
    if output == "json":
        _print_json(verdict)
    else:
        for stream in verdict.streams:
            _print_stream(stream)
    if not verdict.sound:
        sys.exit(1)


def _print_json(verdict: LedgerVerdict) -> None:
    import msgspec

    answer = {"sound": verdict.sound, **msgspec.to_builtins(verdict)}
    click.echo(msgspec.json.format(msgspec.json.encode(answer)).decode())


def _print_stream(stream: StreamVerdict) -> None:
    whose = f" of {describe_group(stream.group)}" if stream.group else ""
    click.echo(
        f"{stream.name}{whose}: {stream.steps} steps count, {stream.lost} were lost and trained "
        f"again, {stream.rounds} rounds"
    )
    for epoch in stream.epochs:
        click.echo(f"  epoch {epoch.epoch}: {_summary(epoch)}")
        _print_found("trained more than once", epoch.repeats, epoch.repeated)
        _print_found("not in the data", epoch.strays, epoch.outside)
        if not epoch.sound and epoch.gaps:
            click.echo(f"    never trained: {_ranges(epoch.gaps)}")
    for fault in stream.faults[:SHOWN]:
        click.echo(f"  {fault}")
    if len(stream.faults) > SHOWN:
        click.echo(f"  … and {len(stream.faults) - SHOWN} more like these")


def _summary(epoch: EpochVerdict) -> str:
    from resile.ledger.check import Extent

    if not epoch.sound:
        return f"NOT exactly once: {epoch.trained} of {epoch.length} trained"
    if epoch.extent is Extent.OPEN:
        return f"under way, {epoch.trained} of {epoch.length} trained so far, each once"
    dropped = f"; {epoch.dropped} dropped at the end" if epoch.dropped else ""
    return f"complete, each of {epoch.trained} trained exactly once{dropped}"


def _print_found(what: str, found: list[IndexPlaces], count: int) -> None:
    if not count:
        return
    click.echo(f"    {count} {what}:")
    for one in found[:SHOWN]:
        places = "; ".join(
            f"step {place.step} by rank {place.rank} in round {place.round}" for place in one.places
        )
        click.echo(f"      index {one.index}: {places}")
    if count > SHOWN:
        click.echo(f"      … and {count - SHOWN} more")


def _ranges(gaps: list[tuple[int, int]]) -> str:
    listed = [str(a) if b - a == 1 else f"{a} to {b - 1}" for a, b in gaps[:SHOWN]]
    return ", ".join(listed) + (" and more" if len(gaps) > SHOWN else "")
