"""The addresses of the other nodes of a job, for the programs that run on a node.

The newest known addresses are returned: from the file that the job's platform replaces whenever a
role gets or loses a node; without a file, from the environment the node was started with; else from
the job's master. Needs no torch and no background thread.

AddressesError
├── NotANode        this process is not a node of a job
└── NoAddresses     the addresses are not available at the moment, or the job has none
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from resile.decoding import DecodeError
from resile.job.addresses import (
    ADDRESSES_FILE_VARIABLE,
    ADDRESSES_VARIABLE,
    Addresses,
    NodeSlot,
    decode_addresses,
)
from resile.shards.client import MASTER_VARIABLE, worker_access
from resile.system.loop_thread import run_in_thread
from resile.system.regular_files import read_regular_file
from resile.wire.errors import WireError
from resile.wire.http_client import ask_addresses

__all__ = ["AddressesError", "NoAddresses", "NotANode", "addresses"]

LOOK_EVERY = 0.2
"""Seconds between two checks of the file while waiting for a change: a check is one stat."""

ASK_EVERY = 2.0
"""Seconds between two requests to the master, which all nodes may send at the same time."""

LARGEST_FILE = 16 << 20
"""Bytes: ten times what a job of 10,000 nodes needs."""

RENDEZVOUS_VARIABLE = "PET_RDZV_ENDPOINT"
"""The master's address for a plain command; only workers of an agent have RESILE_MASTER."""


class AddressesError(Exception):
    """Base class of all errors of :func:`addresses`."""


class NotANode(AddressesError):
    """This process was not started as a node of a job."""


class NoAddresses(AddressesError):
    """The addresses are not available; the text says why."""


def addresses(*, wait: float = 0.0, after: Addresses | None = None) -> Addresses:
    """Return the known addresses of all nodes of this job; ``own`` is this node's.

    With ``wait``, returns when they differ from ``after`` (or from what they were at the time of
    the call), at the latest after that many seconds. A rank keeps its address when its node is
    replaced, so they change only with the sizes of roles. Raises :class:`NotANode` in a process
    that is not a node of a job, and :class:`NoAddresses` when they are not available.
    """
    known = after
    deadline = time.monotonic() + wait
    newest = _newest()
    if known is None:
        known = newest if wait > 0 else None
    while newest == known and (left := deadline - time.monotonic()) > 0:
        _pause(left)
        newest = _newest(may_have_changed=True)
    return newest


def _newest(*, may_have_changed: bool = False) -> Addresses:
    """``may_have_changed``: the environment is outdated, so the master is asked first."""
    given = os.environ.get(ADDRESSES_VARIABLE)
    found = _from_file()
    if found is None and given is not None and may_have_changed:
        try:
            found = _from_master(os.environ)
        except AddressesError:
            found = None
    if found is None:
        found = _from_master(os.environ) if given is None else _decoded(given, ADDRESSES_VARIABLE)
    return replace(found, node=_place(os.environ) or found.node)


def _from_file() -> Addresses | None:
    path = os.environ.get(ADDRESSES_FILE_VARIABLE)
    if not path:
        return None
    try:
        text = read_regular_file(Path(path), limit=LARGEST_FILE)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise NoAddresses(f"{path} cannot be read: {error.strerror}") from None
    return _decoded(text, ADDRESSES_FILE_VARIABLE)


def _from_master(environment: Mapping[str, str]) -> Addresses:
    master = environment.get(MASTER_VARIABLE) or environment.get(RENDEZVOUS_VARIABLE)
    if not master:
        raise NotANode(
            "this process is not a node of a job: it has none of "
            f"${ADDRESSES_FILE_VARIABLE}, ${ADDRESSES_VARIABLE} and ${MASTER_VARIABLE}; "
            "nodes started by 'resile up' and by the operator have them"
        )
    try:
        access = worker_access({**environment, MASTER_VARIABLE: master})
        assert access is not None  # because there is an endpoint
        return run_in_thread(ask_addresses(access))
    except (ValueError, WireError) as error:
        raise NoAddresses(f"the job's master did not return addresses: {error}") from None


def _decoded(text: bytes | str, variable: str) -> Addresses:
    try:
        return decode_addresses(text)
    except DecodeError as error:
        raise NoAddresses(f"${variable} does not hold valid addresses: {error}") from None


def _place(environment: Mapping[str, str]) -> NodeSlot | None:
    role, rank = environment.get("RESILE_ROLE"), environment.get("RESILE_NODE_RANK", "")
    return NodeSlot(role=role, rank=int(rank)) if role and rank.isdecimal() else None


def _pause(left: float) -> None:
    """Sleep until something may have changed: the file was replaced, or the master is due."""
    path = os.environ.get(ADDRESSES_FILE_VARIABLE)
    seen, deadline = _signature(path), time.monotonic() + min(left, ASK_EVERY)
    while (rest := deadline - time.monotonic()) > 0 and _signature(path) == seen:
        time.sleep(min(rest, LOOK_EVERY))


def _signature(path: str | None) -> tuple[int, ...]:
    """A value that changes when the file is replaced, also by a link to another file."""
    if not path:
        return ()
    try:
        found = Path(path).stat()
    except OSError:
        return ()
    return (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)
