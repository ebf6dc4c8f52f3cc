"""``resile ckpt export``: choose the writer by the file's extension, and verify before writing.

Every byte is compared with its checksum first: a file made of damaged weights looks like any other.
"""

from __future__ import annotations

from pathlib import Path

from resile.checkpoint.catalog import Checkpoint, CheckpointCatalog, StoredPart
from resile.checkpoint.errors import CheckpointError, PartDamaged
from resile.checkpoint.export import (
    WholeTensor,
    only_below,
    open_parts,
    whole_tensors,
    write_safetensors,
)
from resile.checkpoint.storage.base import open_storage
from resile.cli.output.checkpoints import progress_bar

__all__ = ["export_checkpoint"]


def export_checkpoint(
    catalog: CheckpointCatalog, checkpoint: Checkpoint, *, output: Path, only: str | None
) -> None:
    """Write one file; raises CheckpointError, and leaves no file then."""
    with progress_bar("Checking", checkpoint.manifest.size) as progress:
        damages = catalog.damages(checkpoint, progress=progress)
    if damages:
        raise PartDamaged(
            f"the checkpoint of step {checkpoint.step} is damaged and not exported: "
            f"{'; '.join(damages)}"
        )
    with open_parts(catalog, checkpoint) as parts:
        tensors = whole_tensors(parts)
        if output.suffix == ".safetensors":
            _write_safetensors(tensors, step=checkpoint.step, output=output, only=only)
        else:
            _write_torch(parts, tensors, output=output, only=only)


def _write_safetensors(
    tensors: dict[str, WholeTensor], *, step: int, output: Path, only: str | None
) -> None:
    chosen = tensors if only is None else only_below(tensors, only)
    storage = open_storage(output.absolute().parent)
    with progress_bar("Writing", sum(one.size for one in chosen.values())) as progress:
        write_safetensors(chosen, step=step, storage=storage, path=output.name, progress=progress)


def _write_torch(
    parts: list[StoredPart],
    tensors: dict[str, WholeTensor],
    *,
    output: Path,
    only: str | None,
) -> None:
    try:
        from resile.train.checkpoint.save.torch_file import write_torch_file
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise CheckpointError(
            f"writing {output.name} needs torch: install resile[torch], or write .safetensors"
        ) from None
    with progress_bar("Reading", sum(one.size for one in tensors.values())) as progress:
        write_torch_file(parts, tensors, target=output, only=only, progress=progress)
