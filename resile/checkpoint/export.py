"""A checkpoint's tensors as one plain safetensors file that any program reads.

Tensors are written one after the other, so that a checkpoint larger than memory can be exported.
What is not a tensor has no place in such a file.
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
    """All parts of a checkpoint, opened for reading."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(StoredPart(shelf.storage, checkpoint, entry))
            for entry in checkpoint.manifest.parts
        ]


def only_below(tensors: dict[str, WholeTensor], name: str) -> dict[str, WholeTensor]:
    """Those of one entry of the state (``model``), under their names in it."""
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
    """Write them as one file; it appears when it is complete."""
    # "format" is what Hugging Face's loaders look for before they take a file.
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
