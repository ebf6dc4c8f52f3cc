"""Export a checkpoint's tensors as one plain safetensors file that any program can read.

Tensors are written one at a time, so that a checkpoint larger than memory can be exported. Values
that are not tensors are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager

from resile.checkpoint.assemble import WholeTensor
from resile.checkpoint.errors import NoCheckpoint
from resile.checkpoint.safetensors_header import encode_header
from resile.checkpoint.shelf import Checkpoint, Shelf
from resile.checkpoint.storage import Storage
from resile.checkpoint.stored_part import StoredPart

__all__ = ["only_below", "open_parts", "write_safetensors"]

PIECE = 8 << 20


@contextmanager
def open_parts(shelf: Shelf, checkpoint: Checkpoint) -> Iterator[list[StoredPart]]:
    """Open all parts of a checkpoint for reading."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(StoredPart(shelf.storage, checkpoint, entry))
            for entry in checkpoint.manifest.parts
        ]


def only_below(tensors: dict[str, WholeTensor], name: str) -> dict[str, WholeTensor]:
    """The tensors of one entry of the state (``model``), under their names within it."""
    found = {
        full.removeprefix(f"{name}."): tensor
        for full, tensor in tensors.items()
        if full.startswith(f"{name}.")
    }
    if not found:
        entries = sorted({full.partition(".")[0] for full in tensors})
        raise NoCheckpoint(
            f"the checkpoint has no tensors below '{name}'; it has {', '.join(entries) or 'none'}"
        )
    return found


def write_safetensors(
    tensors: dict[str, WholeTensor],
    *,
    step: int,
    storage: Storage,
    path: str,
    progress: Callable[[int], None] = lambda _: None,
) -> None:
    """Write tensors as one file, which appears when it is complete."""
    # Hugging Face's loaders require "format".
    header, entries = encode_header(tensors, metadata={"format": "pt", "step": str(step)})
    storage.write(path, _chunks(header, [tensors[name] for name in entries], progress))


def _chunks(
    header: bytes, tensors: Iterable[WholeTensor], progress: Callable[[int], None]
) -> Iterator[memoryview]:
    yield memoryview(header)
    for tensor in tensors:
        data = tensor.read()
        for begin in range(0, len(data), PIECE):
            piece = data[begin : begin + PIECE]
            yield piece
            progress(len(piece))
