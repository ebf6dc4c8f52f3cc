"""Load migration.pth into the registered objects, at any world size.

The file is read with torch's weights_only, so it cannot run code. Its tensors and its record are
converted to the parts of a checkpoint, which are restored like any checkpoint.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import msgspec
import torch

from resile.checkpoint.part import PartHeader, PartKind
from resile.train.checkpoint.capture import Capture
from resile.train.checkpoint.restore import restore
from resile.train.migrate.errors import MigrationDamaged
from resile.train.migrate.file import RECORD, BufferPart, Record, in_buffer

__all__ = ["SavedState"]


class SavedState:
    """An opened migration.pth."""

    def __init__(self, path: Path) -> None:
        """Raises MigrationDamaged if it cannot be read."""
        try:
            found = torch.load(path, weights_only=True, map_location="cpu", mmap=True)
        except (OSError, RuntimeError, EOFError, ValueError, pickle.UnpicklingError) as error:
            reason = str(error).partition("\n")[0]
            raise MigrationDamaged(f"{path} cannot be read: {reason}") from error
        if not isinstance(found, dict):
            raise MigrationDamaged(f"{path} holds a {type(found).__name__}, not a dictionary")
        record = Record.from_file(found.pop(RECORD, None), source=str(path))
        self._record = record
        self._ranks = [
            BufferPart.from_bytes(one, source=f"{path}, rank {rank}")
            for rank, one in enumerate(record.ranks)
        ]
        portion = Capture().take(found, step=record.step).replica
        header = PartHeader(
            step=record.step,
            kind=PartKind.REPLICA,
            index=0,
            count=1,
            world=record.world,
            slices=portion.header.slices,
            values=record.values,
        )
        copied = in_buffer(portion)
        self._replica = BufferPart(header, copied.layout, copied.buffer)

    @property
    def step(self) -> int:
        """Number of steps since the start of the run that saved it."""
        return self._record.step

    @property
    def world(self) -> int:
        """The world size that saved it."""
        return self._record.world

    def load(self, state: dict[str, Any], *, rank: int) -> None:
        """Load all of it. Raises StateMismatch, with nothing changed, if the names differ."""
        restore(state, [self._replica, *self._ranks], rank=rank)

    def load_one(self, name: str, value: Any, *, rank: int) -> bool:
        """Load a single name; False if the file does not have it."""
        values = self._record.values
        if name not in values:
            return False
        header = msgspec.structs.replace(self._replica.header, values={name: values[name]})
        part = BufferPart(header, self._replica.layout, self._replica.buffer)
        restore({name: value}, [part, *self._ranks], rank=rank)
        return True
