"""Which arguments a Checkpointer takes: mistakes are told before anything is trained."""

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
    """Raise ValueError for what cannot be, with the argument's name and what would be right."""
    try:
        msgspec.msgpack.encode(storage_options)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"storage_options are plain values, since another process writes to storage: {error}"
        ) from None
    if not isinstance(every, Auto) and not _is_count(every, least=1):
        raise ValueError(f"every is a number of steps, 1 or more, or Auto(); not {every!r}")
    if not _is_count(keep, least=0):
        raise ValueError(f"keep is how many checkpoints stay, 0 for all; not {keep!r}")
    if group and not is_group(group):
        raise ValueError(f"group is the name of a group, '' for the main one; not {group!r}")
    if checkpoint_every is None:
        return
    if not _is_count(checkpoint_every, least=1):
        raise ValueError(
            f"checkpoint_every is a number of steps, 1 or more; not {checkpoint_every!r}"
        )
    if isinstance(every, int) and checkpoint_every % every:
        raise ValueError(
            f"checkpoint_every ({checkpoint_every}) is a multiple of every ({every}): what is "
            "written to storage is a snapshot"
        )


def _is_count(value: object, *, least: int) -> bool:
    """Whether it is a whole number; True is none, and neither is "10" or 1.5."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
