"""The errors of the client, besides those of an API server (``KubeError``) and of a manifest
(``ManifestError``).

ClientError
├── InvalidName     no job or namespace can have this name
├── NoSuchJob       there is no job of that name
├── InvalidState    the job is over or being deleted, or cannot have that size
├── JobUnreachable  the job runs on this machine, but its `resile up` does not answer
├── JobEnded        the job failed, ended or was deleted before it reached the awaited state
└── WaitTimeout     the time given to a wait is over (a TimeoutError, too)
"""

from __future__ import annotations

import difflib
from collections.abc import Collection

__all__ = [
    "ClientError",
    "InvalidName",
    "InvalidState",
    "JobEnded",
    "JobUnreachable",
    "NoSuchJob",
    "WaitTimeout",
    "no_such_local_job",
]


class ClientError(Exception):
    """Base of all errors of the client; the text is for the user."""


class InvalidName(ClientError):
    """The name is not a valid name of a job, or of a namespace."""


class NoSuchJob(ClientError):
    """There is no such job, or it was deleted. ``others``: the names of the jobs at ``place``."""

    def __init__(self, message: str, *, place: str = "", others: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.place = place
        self.others = others


class InvalidState(ClientError):
    """The job is over, or being deleted, or cannot be changed that way."""


class JobUnreachable(ClientError):
    """The `resile up` of the job does not answer."""


class JobEnded(ClientError):
    """The job failed, ended or was deleted before it reached the awaited state."""


class WaitTimeout(ClientError, TimeoutError):
    """The time given to a wait is over."""


def no_such_local_job(name: str, others: Collection[str]) -> NoSuchJob:
    """Return the error for a job that this machine does not have; it names the existing ones."""
    if not others:
        return NoSuchJob(
            f"there is no job '{name}', nor any other on this machine; "
            "start one with 'resile up job.yaml'"
        )
    close = difflib.get_close_matches(name, others, n=1)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    return NoSuchJob(
        f"there is no job '{name}'.{hint} There are: {', '.join(others)}", others=tuple(others)
    )
