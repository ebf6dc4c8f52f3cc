"""``resile ckpt``: list, inspect, verify, prune and export checkpoints."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from resile.checkpoint.catalog import Checkpoint, CheckpointCatalog, Depth, groups_on
from resile.checkpoint.errors import CheckpointError, NoCheckpoint, NotOnStorage
from resile.checkpoint.fence import StorageFence
from resile.checkpoint.prune import REMAINS_AGE, PruningPlan, plan_pruning
from resile.checkpoint.prune import prune as carry_out_pruning
from resile.checkpoint.storage.base import Storage, open_storage
from resile.cli.options.types import GROUP, output_option
from resile.cli.output.format import memory
from resile.group_name import MAIN_GROUP, describe_group

HELP = {"help_option_names": ["-h", "--help"]}

_output = output_option("table", "json")
_step = click.option(
    "--step", type=click.IntRange(0), metavar="N", help="Step of the checkpoint [newest]."
)
_group = click.option(
    "--group",
    type=GROUP,
    metavar="NAME",
    help="Only this group of the job; '' for the main one [all].",
)
_one_group = click.option(
    "--group",
    type=GROUP,
    metavar="NAME",
    default=MAIN_GROUP,
    help="Group of the job [the main one].",
)


@click.group(context_settings=HELP)
def ckpt() -> None:
    """List, inspect, verify, prune and export checkpoints.

    DIR is the folder that a script gives to its Checkpointer: a path, s3://… or gs://…

    \b
    Examples:
      resile ckpt ls checkpoints/
      resile ckpt verify s3://bucket/run-7
      resile ckpt export checkpoints/ model.safetensors --only model
    """


@ckpt.command(context_settings=HELP)
@click.argument("folder", metavar="DIR")
@_group
@_output
def ls(folder: str, group: str | None, output: str) -> None:
    """List the checkpoints in DIR, newest first.

    Whether one is whole is judged by the sizes of its files; 'resile ckpt verify' reads them.

    \b
    Examples:
      resile ckpt ls checkpoints/
      resile ckpt ls s3://bucket/run-7 -o json
      resile ckpt ls checkpoints/ --group evaluate
    """
    with _explained():
        rows = []
        for catalog in _shelves(folder, group):
            fence = catalog.fence(tell=_warn)
            rows += [_summary(catalog, one, fence) for one in _checkpoints(catalog)]
    if output == "json":
        click.echo(json.dumps(rows, indent=2))
    else:
        from resile.cli.output.checkpoints import print_checkpoints

        print_checkpoints(rows)


@ckpt.command(
    context_settings=HELP,
    short_help="Show one checkpoint: when, by how many workers, in which parts.",
)
@click.argument("folder", metavar="DIR")
@_step
@_one_group
@click.option("--tensors", is_flag=True, help="List every tensor with type and shape.")
@_output
def show(folder: str, step: int | None, group: str, tensors: bool, output: str) -> None:
    """Show one checkpoint of DIR: when, by how many workers, in which parts.

    \b
    Examples:
      resile ckpt show checkpoints/
      resile ckpt show checkpoints/ --step 1200 --tensors
    """
    with _explained():
        catalog = CheckpointCatalog(open_storage(folder), group)
        checkpoint = _chosen(catalog, step)
        shown = _summary(catalog, checkpoint, catalog.fence(tell=_warn))
        shown["parts"] = [
            {"name": part.name, "size": part.size, "checksum": part.checksum}
            for part in checkpoint.manifest.parts
        ]
        if tensors:
            shown["tensors"] = _tensors(catalog, checkpoint)
    if output == "json":
        click.echo(json.dumps(shown, indent=2))
    else:
        from resile.cli.output.checkpoints import print_checkpoint

        print_checkpoint(shown)


@ckpt.command(context_settings=HELP, short_help="Read every byte and compare the checksums.")
@click.argument("folder", metavar="DIR")
@click.option("--step", type=click.IntRange(0), metavar="N", help="Only this one [all].")
@_group
def verify(folder: str, step: int | None, group: str | None) -> None:
    """Read every byte of the checkpoints in DIR and compare the checksums.

    Ends with exit code 1 and the names of the damaged parts if there are any.

    \b
    Examples:
      resile ckpt verify checkpoints/
      resile ckpt verify checkpoints/ --step 1200
    """
    from resile.cli.output.checkpoints import progress_bar

    with _explained():
        unreadable: list[str] = []
        shelves = _shelves(folder, group)
        wanted = (
            [(catalog, one) for catalog in shelves for one in _checkpoints(catalog, unreadable)]
            if step is None
            else _at_step(shelves, step)
        )
        size = sum(one.manifest.size for _, one in wanted)
        with progress_bar("Checking", size) as progress:
            found = [(one, catalog.damages(one, progress=progress)) for catalog, one in wanted]
    for checkpoint, damages in found:
        whose = _whose(checkpoint.manifest.group)
        click.echo(f"step {checkpoint.step}{whose}: {'damaged' if damages else 'whole'}")
        for damage in damages:
            click.echo(f"  {damage}")
    damaged = len(unreadable) + sum(bool(damages) for _, damages in found)
    if damaged:
        raise click.ClickException(f"{damaged} of {len(found) + len(unreadable)} are damaged")


@ckpt.command(
    context_settings=HELP, short_help="Remove old checkpoints, and remains of unfinished writes."
)
@click.argument("folder", metavar="DIR")
@click.option(
    "--keep",
    type=click.IntRange(1),
    required=True,
    metavar="N",
    help="Number of checkpoints to keep.",
)
@_group
@click.option("--dry-run", is_flag=True, help="Only print what would be removed.")
@click.option(
    "--verify",
    "deep",
    is_flag=True,
    help="Verify checksums to find out which checkpoints are complete.",
)
@click.option(
    "--remains-age",
    type=click.FloatRange(0),
    default=REMAINS_AGE,
    show_default=True,
    metavar="SECONDS",
    help="Minimum age of remains of unfinished writes.",
)
def prune(
    folder: str, keep: int, group: str | None, dry_run: bool, deep: bool, remains_age: float
) -> None:
    """Remove all but the newest checkpoints of DIR, and old remains of writes that never ended.

    The newest whole checkpoint always stays, also when newer ones are damaged. Each group of the
    job is counted for itself. Files that Resile did not write are never touched.

    \b
    Examples:
      resile ckpt prune checkpoints/ --keep 3
      resile ckpt prune checkpoints/ --keep 1 --dry-run
    """
    act = plan_pruning if dry_run else carry_out_pruning
    depth = Depth.CHECKSUMS if deep else Depth.SIZES
    verb = "would remove" if dry_run else "removed"
    with _explained():
        for catalog in _shelves(folder, group):
            _checkpoints(catalog)
            done = act(catalog, keep=keep, depth=depth, remains_age=remains_age, tell=_warn)
            click.echo(_told(done, verb, catalog.group))


def _told(done: PruningPlan, verb: str, group: str) -> str:
    whose = _whose(group)
    if not done.steps and not done.remains:
        return f"nothing to remove{whose}"
    what = []
    if done.steps:
        steps = ", ".join(map(str, sorted(done.steps)))
        what.append(f"the checkpoints of steps {steps}{whose}")
    if done.remains:
        what.append(f"{len(done.remains)} files of unfinished writes{whose}")
    return f"{verb} {' and '.join(what)} ({memory(done.size)})"


@ckpt.command(
    context_settings=HELP, short_help="Write one checkpoint as one plain file, .safetensors or .pt."
)
@click.argument("folder", metavar="DIR")
@click.argument("output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE")
@_step
@_one_group
@click.option("--only", metavar="NAME", help="One entry of the state, such as model.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
def export(
    folder: str, output: Path, step: int | None, group: str, only: str | None, force: bool
) -> None:
    """Write one checkpoint of DIR as one plain file, .safetensors or .pt.

    A .safetensors file holds the tensors, under their names. A .pt file holds the state as the
    script gave it, for torch.load(weights_only=True). Sharded tensors are put together. What each
    rank has for itself, such as random states, is left out.

    \b
    Examples:
      resile ckpt export checkpoints/ state.pt
      resile ckpt export checkpoints/ model.safetensors --only model --step 1200
    """
    from resile.cli.commands.ckpt_export import export_checkpoint

    if output.suffix not in (".safetensors", ".pt", ".pth"):
        raise click.UsageError(f"FILE must end in .safetensors or .pt, unlike '{output}'")
    if output.exists() and not force:
        raise click.UsageError(f"{output} exists; --force overwrites it")
    with _explained():
        catalog = CheckpointCatalog(open_storage(folder), group)
        checkpoint = _chosen(catalog, step)
        export_checkpoint(catalog, checkpoint, output=output, only=only)
    click.echo(f"wrote step {checkpoint.step} to {output} ({memory(output.stat().st_size)})")


@contextmanager
def _explained() -> Iterator[None]:
    """Report an error of a checkpoint as one line, with exit code 1."""
    try:
        yield
    except CheckpointError as error:
        raise click.ClickException(str(error)) from None


def _shelves(folder: str, group: str | None) -> list[CheckpointCatalog]:
    """Return the catalogs of all groups in the folder, or only that of ``group``."""
    storage = open_storage(folder)
    if group is not None:
        return [CheckpointCatalog(storage, group)]
    return [CheckpointCatalog(storage, one) for one in _groups(storage)] or [
        CheckpointCatalog(storage)
    ]


def _groups(storage: Storage) -> list[str]:
    try:
        return groups_on(storage)
    except NotOnStorage:
        raise NoCheckpoint(f"there is no folder {storage.address}") from None


def _at_step(
    shelves: list[CheckpointCatalog], step: int
) -> list[tuple[CheckpointCatalog, Checkpoint]]:
    """Return each group's checkpoint of a step, if it has one; raises NoCheckpoint if none has."""
    found, absent = [], None
    for catalog in shelves:
        try:
            found.append((catalog, catalog.at(step)))
        except NoCheckpoint as error:
            absent = absent or error
    if absent is not None and not found:
        raise absent
    return found


def _whose(group: str) -> str:
    """Return the text that follows a step of another group than the main one."""
    return f" of {describe_group(group)}" if group else ""


def _warn(text: str) -> None:
    click.echo(f"Warning: {text}", err=True)


def _checkpoints(
    catalog: CheckpointCatalog, unreadable: list[str] | None = None
) -> list[Checkpoint]:
    """Return all checkpoints; warn of those whose manifest cannot be read."""
    messages: list[str] = []
    try:
        found = list(catalog.checkpoints(tell=messages.append))
    except NotOnStorage:
        raise NoCheckpoint(_nothing(catalog, f"there is no folder {catalog.address}")) from None
    for text in messages:
        _warn(text)
    if unreadable is not None:
        unreadable.extend(messages)
    if not found and not messages:
        raise NoCheckpoint(_nothing(catalog, f"there is no checkpoint in {catalog.address}"))
    return found


def _nothing(catalog: CheckpointCatalog, said: str) -> str:
    """Return the message that a group has no checkpoint, with the groups that have one."""
    try:
        others = [one for one in groups_on(catalog.storage) if one != catalog.group]
    except NotOnStorage:
        return said
    named = ", ".join(f"'{one}'" for one in others)
    return f"{said}; other groups have some: --group {named}" if others else said


def _chosen(catalog: CheckpointCatalog, step: int | None) -> Checkpoint:
    if step is not None:
        return catalog.at(step)
    found = _checkpoints(catalog)
    if not found:
        raise NoCheckpoint(f"there is no checkpoint that can be read in {catalog.address}")
    return found[0]


def _summary(
    catalog: CheckpointCatalog, checkpoint: Checkpoint, fence: StorageFence
) -> dict[str, Any]:
    manifest = checkpoint.manifest
    return {
        "group": manifest.group,
        "step": manifest.step,
        "size": manifest.size,
        "world": manifest.world,
        "part_count": len(manifest.parts),
        "created": manifest.created,
        "job": manifest.job,
        "round": manifest.round,
        "damages": catalog.damages(checkpoint, Depth.SIZES),
        "superseded": fence.superseded(checkpoint.attempt, checkpoint.step),
    }


def _tensors(catalog: CheckpointCatalog, checkpoint: Checkpoint) -> list[dict[str, Any]]:
    from resile.checkpoint.export import open_parts, whole_tensors

    with open_parts(catalog, checkpoint) as parts:
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
