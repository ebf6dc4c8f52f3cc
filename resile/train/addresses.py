"""Where the other nodes of this node's job are, for the programs that run on it.

The newest that is known: from the file that the job's platform replaces whenever a role gets or
loses a node; where there is no file, from the environment as it was when the node was started; else
from the job's master. Needs no torch, and nothing in the background.

AddressesError
├── NotANode        this process is no node of a job
└── NoAddresses     nobody can tell at the moment, or there are none to tell
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
    Place,
    decode_addresses,
)
from resile.regular_files import read_regular_file
from resile.system.loop_thread import run_in_thread
from resile.wire.errors import WireError
from resile.wire.http_client import ask_addresses
from resile.wire.shards_client import MASTER_VARIABLE, worker_access

__all__ = ["AddressesError", "NoAddresses", "NotANode", "addresses"]

LOOK_EVERY = 0.2
"""Seconds between two looks at the file while somebody waits for a change: a look is one stat."""

ASK_EVERY = 2.0
"""Seconds between two questions to the master, which all nodes may ask at the same time."""

LARGEST_FILE = 16 << 20
"""Bytes: ten times what a job of 10,000 nodes needs."""

RENDEZVOUS_VARIABLE = "PET_RDZV_ENDPOINT"
"""Where a plain command finds the job's master; only workers of an agent have RESILE_MASTER."""


class AddressesError(Exception):
    """Base of all errors of :func:`addresses`."""


class NotANode(AddressesError):
    """This process was not started as a node of a job."""


class NoAddresses(AddressesError):
    """The addresses cannot be had; the text says why."""


def addresses(*, wait: float = 0.0, after: Addresses | None = None) -> Addresses:
    """The addresses of all nodes of this job, as far as they are known; ``own`` is this node's.

    With ``wait``, returns when they are not ``after`` any more (or not what they were at the time
    of the call), at the latest after that many seconds. A rank keeps its address when its node is
    replaced, so they change only with the sizes of roles. Raises :class:`NotANode` in a process
    that is no node of a job, and :class:`NoAddresses` when nobody can tell.
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
    """``may_have_changed``: the environment is too old to be believed before the master."""
    told = os.environ.get(ADDRESSES_VARIABLE)
    found = _from_file()
    if found is None and told is not None and may_have_changed:
        try:
            found = _from_master(os.environ)
        except AddressesError:
            found = None
    if found is None:
        found = _from_master(os.environ) if told is None else _decoded(told, ADDRESSES_VARIABLE)
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
            "this process is no node of a job: it has neither "
            f"${ADDRESSES_FILE_VARIABLE}, ${ADDRESSES_VARIABLE} nor ${MASTER_VARIABLE}; "
            "'resile up' and the operator start nodes that do"
        )
    try:
        access = worker_access({**environment, MASTER_VARIABLE: master})
        assert access is not None  # because there is an endpoint
        return run_in_thread(ask_addresses(access))
    except (ValueError, WireError) as error:
        raise NoAddresses(f"the job's master gives no addresses: {error}") from None


def _decoded(text: bytes | str, variable: str) -> Addresses:
    try:
        return decode_addresses(text)
    except DecodeError as error:
        raise NoAddresses(f"${variable} gives no addresses: {error}") from None


def _place(environment: Mapping[str, str]) -> Place | None:
    role, rank = environment.get("RESILE_ROLE"), environment.get("RESILE_NODE_RANK", "")
    return Place(role=role, rank=int(rank)) if role and rank.isdecimal() else None


def _pause(left: float) -> None:
    """Until something may have changed: the file is another, or it is time to ask again."""
    path = os.environ.get(ADDRESSES_FILE_VARIABLE)
    seen, deadline = _signature(path), time.monotonic() + min(left, ASK_EVERY)
    while (rest := deadline - time.monotonic()) > 0 and _signature(path) == seen:
        time.sleep(min(rest, LOOK_EVERY))


def _signature(path: str | None) -> tuple[int, ...]:
    """Changes when the file is replaced, be it by a link to another one."""
    if not path:
        return ()
    try:
        found = Path(path).stat()
    except OSError:
        return ()
    return (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)
