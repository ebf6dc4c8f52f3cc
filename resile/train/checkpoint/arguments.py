"""Validation of a Checkpointer's arguments, before anything is trained."""

from __future__ import annotations

from typing import Any

import msgspec

from resile.groupname import is_group
from resile.train.checkpoint.policy import Auto

__all__ = ["check_arguments"]


def check_arguments(
    every: int | Auto,
    checkpoint_every: int | None,
    keep: int,
    storage_options: dict[str, Any] | None,
    group: str | None = None,
) -> None:
    """Raise ValueError for an invalid argument; the text names it and says what would be right."""
    try:
        msgspec.msgpack.encode(storage_options)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"storage_options must be plain values, as another process writes to storage: {error}"
        ) from None
    if not isinstance(every, Auto) and not _is_count(every, least=1):
        raise ValueError(f"every must be a number of steps, 1 or more, or Auto(); not {every!r}")
    if not _is_count(keep, least=0):
        raise ValueError(f"keep must be a number of checkpoints to keep, 0 for all; not {keep!r}")
    if group and not is_group(group):
        raise ValueError(f"group must be the name of a group, '' for the main one; not {group!r}")
    if checkpoint_every is None:
        return
    if not _is_count(checkpoint_every, least=1):
        raise ValueError(
            f"checkpoint_every must be a number of steps, 1 or more; not {checkpoint_every!r}"
        )
    if isinstance(every, int) and checkpoint_every % every:
        raise ValueError(
            f"checkpoint_every ({checkpoint_every}) must be a multiple of every ({every}): only "
            "snapshots are written to storage"
        )


def _is_count(value: object, *, least: int) -> bool:
    """Whether it is an int of at least ``least``; True, "10" and 1.5 are not."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
