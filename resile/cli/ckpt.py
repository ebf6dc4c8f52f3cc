"""``resile ckpt``: what is in a folder of checkpoints, whether it is whole, and getting it out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from resile.checkpoint.errors import CheckpointError, NoCheckpoint, NotThere
from resile.checkpoint.fence import Fence
from resile.checkpoint.prune import Pruning, plan_pruning
from resile.checkpoint.prune import prune as carry_out_pruning
from resile.checkpoint.remains import REMAINS_AGE
from resile.checkpoint.shelf import Checkpoint, Depth, Shelf
from resile.checkpoint.storage import open_storage
from resile.cli.amounts import memory

HELP = {"help_option_names": ["-h", "--help"]}

_output = click.option(
    "--output", "-o", type=click.Choice(["table", "json"]), default="table", show_default=True
)
_step = click.option("--step", type=click.IntRange(0), metavar="N", help="Which one [newest].")


@click.group(context_settings=HELP)
def ckpt() -> None:
    """Look into checkpoints, check, prune and export them.

    DIR is the folder that a script gives to its Checkpointer: a path, s3://… or gs://…

    \b
    Examples:
      resile ckpt ls checkpoints/
      resile ckpt verify s3://bucket/run-7
      resile ckpt export checkpoints/ model.safetensors --only model
    """


@ckpt.command(context_settings=HELP)
@click.argument("folder", metavar="DIR")
@_output
def ls(folder: str, output: str) -> None:
    """List the checkpoints in DIR, newest first.

    Whether one is whole is judged by the sizes of its files; 'resile ckpt verify' reads them.

    \b
    Examples:
      resile ckpt ls checkpoints/
      resile ckpt ls s3://bucket/run-7 -o json
    """
    with _explained():
        shelf = _shelf(folder)
        fence = shelf.fence(tell=_warn)
        rows = [_summary(shelf, one, fence) for one in _checkpoints(shelf)]
    if output == "json":
        click.echo(json.dumps(rows, indent=2))
    else:
        from resile.cli.ckpt_tables import print_checkpoints

        print_checkpoints(rows)


@ckpt.command(
    context_settings=HELP,
    short_help="Show one checkpoint: when, by how many workers, in which parts.",
)
@click.argument("folder", metavar="DIR")
@_step
@click.option("--tensors", is_flag=True, help="Also every tensor, with its type and shape.")
@_output
def show(folder: str, step: int | None, tensors: bool, output: str) -> None:
    """Show one checkpoint of DIR: when, by how many workers, in which parts.

    \b
    Examples:
      resile ckpt show checkpoints/
      resile ckpt show checkpoints/ --step 1200 --tensors
    """
    with _explained():
        shelf = _shelf(folder)
        checkpoint = _chosen(shelf, step)
        shown = _summary(shelf, checkpoint, shelf.fence(tell=_warn))
        shown["parts"] = [
            {"name": part.name, "size": part.size, "checksum": part.checksum}
            for part in checkpoint.manifest.parts
        ]
        if tensors:
            shown["tensors"] = _tensors(shelf, checkpoint)
    if output == "json":
        click.echo(json.dumps(shown, indent=2))
    else:
        from resile.cli.ckpt_tables import print_checkpoint

        print_checkpoint(shown)


@ckpt.command(context_settings=HELP, short_help="Read every byte and compare the checksums.")
@click.argument("folder", metavar="DIR")
@click.option("--step", type=click.IntRange(0), metavar="N", help="Only this one [all].")
def verify(folder: str, step: int | None) -> None:
    """Read every byte of the checkpoints in DIR and compare the checksums.

    Ends with exit code 1 and the names of the damaged parts if there are any.

    \b
    Examples:
      resile ckpt verify checkpoints/
      resile ckpt verify checkpoints/ --step 1200
    """
    from resile.cli.ckpt_tables import progress_bar

    with _explained():
        shelf = _shelf(folder)
        unreadable: list[str] = []
        wanted = [shelf.at(step)] if step is not None else _checkpoints(shelf, unreadable)
        with progress_bar("Checking", sum(one.manifest.size for one in wanted)) as progress:
            found = [(one, shelf.damages(one, progress=progress)) for one in wanted]
    for checkpoint, damages in found:
        click.echo(f"step {checkpoint.step}: {'damaged' if damages else 'whole'}")
        for damage in damages:
            click.echo(f"  {damage}")
    damaged = len(unreadable) + sum(bool(damages) for _, damages in found)
    if damaged:
        raise click.ClickException(f"{damaged} of {len(found) + len(unreadable)} are damaged")


@ckpt.command(
    context_settings=HELP, short_help="Remove old checkpoints, and remains of unfinished writes."
)
@click.argument("folder", metavar="DIR")
@click.option("--keep", type=click.IntRange(1), required=True, metavar="N", help="How many stay.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@click.option("--verify", "deep", is_flag=True, help="Judge by checksums which one is whole.")
@click.option(
    "--remains-age",
    type=click.FloatRange(0),
    default=REMAINS_AGE,
    show_default=True,
    metavar="SECONDS",
    help="How old the remains of a write must be.",
)
def prune(folder: str, keep: int, dry_run: bool, deep: bool, remains_age: float) -> None:
    """Remove all but the newest checkpoints of DIR, and old remains of writes that never ended.

    The newest whole checkpoint always stays, also when newer ones are damaged. Files that Resile
    did not write are never touched.

    \b
    Examples:
      resile ckpt prune checkpoints/ --keep 3
      resile ckpt prune checkpoints/ --keep 1 --dry-run
    """
    with _explained():
        shelf = _shelf(folder)
        _checkpoints(shelf)
        act = plan_pruning if dry_run else carry_out_pruning
        depth = Depth.CHECKSUMS if deep else Depth.SIZES
        done = act(shelf, keep=keep, depth=depth, remains_age=remains_age, tell=_warn)
    click.echo(_told(done, "would remove" if dry_run else "removed"))


def _told(done: Pruning, verb: str) -> str:
    if not done.steps and not done.remains:
        return "nothing to remove"
    what = []
    if done.steps:
        what.append(f"the checkpoints of steps {', '.join(map(str, sorted(done.steps)))}")
    if done.remains:
        what.append(f"{len(done.remains)} files of unfinished writes")
    return f"{verb} {' and '.join(what)} ({memory(done.size)})"


@ckpt.command(
    context_settings=HELP, short_help="Write one checkpoint as one plain file, .safetensors or .pt."
)
@click.argument("folder", metavar="DIR")
@click.argument("output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE")
@_step
@click.option("--only", metavar="NAME", help="One entry of the state, such as model.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
def export(folder: str, output: Path, step: int | None, only: str | None, force: bool) -> None:
    """Write one checkpoint of DIR as one plain file, .safetensors or .pt.

    A .safetensors file holds the tensors, under their names. A .pt file holds the state as the
    script gave it, for torch.load(weights_only=True). Sharded tensors are put together. What each
    rank has for itself, such as random states, is left out.

    \b
    Examples:
      resile ckpt export checkpoints/ state.pt
      resile ckpt export checkpoints/ model.safetensors --only model --step 1200
    """
    from resile.cli.ckpt_export import export_checkpoint

    if output.suffix not in (".safetensors", ".pt", ".pth"):
        raise click.UsageError(f"FILE must end in .safetensors or .pt, unlike '{output}'")
    if output.exists() and not force:
        raise click.UsageError(f"{output} exists; --force overwrites it")
    with _explained():
        shelf = _shelf(folder)
        checkpoint = _chosen(shelf, step)
        export_checkpoint(shelf, checkpoint, output=output, only=only)
    click.echo(f"wrote step {checkpoint.step} to {output} ({memory(output.stat().st_size)})")


@contextmanager
def _explained() -> Iterator[None]:
    """Show what went wrong with a checkpoint as one line, with exit code 1."""
    try:
        yield
    except CheckpointError as error:
        raise click.ClickException(str(error)) from None


def _shelf(folder: str) -> Shelf:
    return Shelf(open_storage(folder))


def _warn(text: str) -> None:
    click.echo(f"Warning: {text}", err=True)


def _checkpoints(shelf: Shelf, unreadable: list[str] | None = None) -> list[Checkpoint]:
    """All there are; those whose manifest cannot be read are warned of."""
    told: list[str] = []
    try:
        found = list(shelf.checkpoints(tell=told.append))
    except NotThere:
        raise NoCheckpoint(f"there is no folder {shelf.storage.address}") from None
    for text in told:
        _warn(text)
    if unreadable is not None:
        unreadable.extend(told)
    if not found and not told:
        raise NoCheckpoint(f"there is no checkpoint in {shelf.storage.address}")
    return found


def _chosen(shelf: Shelf, step: int | None) -> Checkpoint:
    if step is not None:
        return shelf.at(step)
    found = _checkpoints(shelf)
    if not found:
        raise NoCheckpoint(f"there is no checkpoint that can be read in {shelf.storage.address}")
    return found[0]


def _summary(shelf: Shelf, checkpoint: Checkpoint, fence: Fence) -> dict[str, Any]:
    manifest = checkpoint.manifest
    return {
        "step": manifest.step,
        "size": manifest.size,
        "world": manifest.world,
        "part_count": len(manifest.parts),
        "created": manifest.created,
        "job": manifest.job,
        "round": manifest.round,
        "damages": shelf.damages(checkpoint, Depth.SIZES),
        "superseded": fence.superseded(checkpoint.attempt, checkpoint.step),
    }


def _tensors(shelf: Shelf, checkpoint: Checkpoint) -> list[dict[str, Any]]:
    from resile.checkpoint.assemble import whole_tensors
    from resile.checkpoint.export import open_parts

    with open_parts(shelf, checkpoint) as parts:
        return [
            {
                "name": one.name,
                "dtype": one.dtype,
                "shape": list(one.shape),
                "size": one.size,
                "slices": len(one.pieces),
            }
            for one in whole_tensors(parts).values()
        ]
