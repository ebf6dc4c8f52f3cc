"""A warning, printed once, that no operator seems to reconcile a job that a command waits for."""

from __future__ import annotations

import time
from typing import Protocol

import click

__all__ = ["OperatorWatch"]

STEERED = 5.0
"""Seconds. A running operator acts on a change within one; a rescheduled one,
within a few."""


class _Unseen(Protocol):
    @property
    def namespace(self) -> str: ...

    @property
    def unseen(self) -> bool: ...


class OperatorWatch:
    """Warns some seconds after it is created. Call :meth:`look` after each view of the job."""

    def __init__(self, job: _Unseen, *, after: float = STEERED) -> None:
        self._job = job
        self._at = time.monotonic() + after
        self._warned = False

    def look(self) -> None:
        """Warn if no operator has observed the job, or its change, for too long."""
        if self._warned or time.monotonic() < self._at or not self._job.unseen:
            return
        from resile.client.cluster.cluster import HOW_TO_INSTALL

        self._warned = True
        click.echo(
            "Warning: no operator has observed the job yet. Is the Resile operator running in this "
            f"cluster, and does it watch namespace {self._job.namespace}? "
            f"Install it {HOW_TO_INSTALL}.",
            err=True,
        )
