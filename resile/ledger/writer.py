"""The worker's side of the ledger: one small append for each step.

The line of a step goes to the kernel in one write when the step is recorded, so it survives the end
of the worker; only a crash of the machine can lose it. The file is created with the first line, and
a forked child (a data loader's worker) never writes to its parent's file.

A folder that cannot be written is a configuration error, and raised. Storage that fails later, or
is full, must not stop the training: it is logged once, this worker writes no more, and the check
finds what is missing.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path

from resile.group_name import group_from_environment
from resile.ledger.errors import LedgerUnusable
from resile.ledger.lines import ENDING, BeginLine, Line, encode_line, trained

__all__ = ["FOLDER_VARIABLE", "Ledger", "round_name"]

log = logging.getLogger("resile.ledger")

FOLDER_VARIABLE = "RESILE_LEDGER"
"""The environment variable with the ledger's folder, which turns the ledger on; empty: off."""

MISTAKES = {errno.EACCES, errno.EPERM, errno.EROFS, errno.EEXIST, errno.ENOTDIR, errno.ENAMETOOLONG}
"""Errors of a folder that can never be written."""


class Ledger:
    """The record of one worker process for one stream of data.

    ``length`` is the number of indices in an epoch, ``drops`` whether the last incomplete global
    batch is left out. Rank, world, round and group default to the environment's.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        stream: str = "data",
        *,
        length: int | None = None,
        drops: bool = False,
        rank: int | None = None,
        world: int | None = None,
        round: str | None = None,
        group: str | None = None,
    ) -> None:
        self._folder = Path(folder)
        self._stream = stream
        self._length = length
        self._drops = drops
        self._rank = int(os.environ.get("RANK", "0")) if rank is None else rank
        self._world = int(os.environ.get("WORLD_SIZE", "1")) if world is None else world
        self._process_round = round_name(os.environ) if round is None else round
        self._group = group_from_environment(os.environ) if group is None else group
        self._begun = 0
        self._file: int | None = None
        self._closing: weakref.finalize[..., Ledger] | None = None
        """Closes the file with this object: a script may create one every epoch."""
        self._owner = 0
        self._failed = False

    @property
    def round(self) -> str:
        """The name of the current round: saved with the state, to be passed to :meth:`resumed`."""
        again = f"#{self._begun}" if self._begun > 1 else ""
        return self._process_round + again

    def resumed(self, step: int | None, *, of: str | None = None) -> None:
        """Record that state was restored whose last step is ``step``, trained by round ``of``.

        Later steps that were trained before no longer count. None: nothing was restored, and
        nothing that was trained before counts.
        """
        self._begun += 1
        self._append(
            BeginLine(
                stream=self._stream,
                round=self.round,
                rank=self._rank,
                world=self._world,
                time=time.time(),
                step=step,
                of=of,
                length=self._length,
                drops=self._drops,
                group=self._group,
            )
        )

    def record(
        self, step: int, epoch: int, indices: Sequence[int], *, total: int | None = None
    ) -> None:
        """Record that this worker trained ``indices`` in ``step``, as its share of ``total``."""
        if not self._begun:
            self.resumed(None)
        self._append(trained(step, epoch, indices=indices, total=total))

    def close(self) -> None:
        """Close the file."""
        if self._closing is not None:
            self._closing()
        self._file = self._closing = None

    def _append(self, line: Line) -> None:
        if self._failed:
            return
        data = encode_line(line)
        try:
            if os.write(self._opened(), data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            trouble = f"the ledger cannot be written to {self._folder}: {error.strerror}"
            if error.errno in MISTAKES:
                raise LedgerUnusable(
                    f"{trouble}; unset ${FOLDER_VARIABLE} to train without one"
                ) from None
            self._failed = True
            log.warning("%s; rank %d continues without it", trouble, self._rank)

    def _opened(self) -> int:
        if self._file is None or self._owner != os.getpid():
            self._folder.mkdir(parents=True, exist_ok=True)
            stream = re.sub(r"[^A-Za-z0-9._-]+", "_", self._stream)
            name = f"{stream}-{time.time_ns()}-rank{self._rank}-{os.getpid()}{ENDING}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
            self.close()
            self._file = os.open(self._folder / name, flags, 0o644)
            self._closing = weakref.finalize(self, os.close, self._file)
            self._owner = os.getpid()
        return self._file


def round_name(environment: Mapping[str, str]) -> str:
    """The name of a round: shared by its workers, and unique.

    Under Resile each round has a store of its own. Under plain torchrun only the restart count and
    the world size distinguish rounds; the reader handles repeated names.
    """
    run = environment.get("TORCHELASTIC_RUN_ID", "none")
    store = f"{environment.get('MASTER_ADDR', '')}:{environment.get('MASTER_PORT', '')}"
    if number := environment.get("RESILE_ROUND"):
        return f"{run}@{store}/{number}"
    restarts = environment.get("TORCHELASTIC_RESTART_COUNT", "0")
    return f"{run}@{store}/{restarts}/{environment.get('WORLD_SIZE', '1')}"
