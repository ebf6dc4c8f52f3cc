"""Suspecting that nobody looks after a cluster's job: said once while a command waits for one."""

from __future__ import annotations

import time
from typing import Protocol

import click

__all__ = ["OperatorWatch"]

STEERED = 5.0
"""Seconds. An operator that runs takes a change up within one; one that is moved, within some."""


class _Unseen(Protocol):
    @property
    def namespace(self) -> str: ...

    @property
    def unseen(self) -> bool: ...


class OperatorWatch:
    """Counts from when it is made. Call :meth:`look` after each look at the job."""

    def __init__(self, job: _Unseen, *, after: float = STEERED) -> None:
        self._job = job
        self._at = time.monotonic() + after
        self._warned = False

    def look(self) -> None:
        """Tell the user if nobody has taken the job, or its change, up for too long."""
        if self._warned or time.monotonic() < self._at or not self._job.unseen:
            return
        from resile.client.cluster.cluster import HOW_TO_INSTALL

        self._warned = True
        click.echo(
            "Warning: no operator has taken the job up. Does Resile's run in this cluster, and "
            f"look after namespace {self._job.namespace}? It is installed {HOW_TO_INSTALL}.",
            err=True,
        )
