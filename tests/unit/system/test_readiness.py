"""Descriptors of any number can be polled."""

from __future__ import annotations

import fcntl
import os
import resource
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from resile.system.readiness import is_readable, wait_writable

BEYOND_SELECT = 1024


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection; the first one's descriptor is too large for select."""
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = BEYOND_SELECT + 100
    if most != resource.RLIM_INFINITY and most < wanted:
        pytest.skip(f"at most {most} descriptors are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(allowed, wanted), most))
    first, second = socket.socketpair()
    high = socket.socket(fileno=fcntl.fcntl(first, fcntl.F_DUPFD_CLOEXEC, BEYOND_SELECT))
    first.close()
    with closing(high), closing(second):
        yield high, second
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, most))


def test_a_descriptor_is_readable_once_something_came(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    high, other = pair
    assert high.fileno() >= BEYOND_SELECT
    assert not is_readable(high)
    other.send(b"x")
    assert is_readable(high)
    wait_writable(high.fileno())


def test_the_end_can_be_read() -> None:
    read, write = os.pipe()
    os.close(write)
    with os.fdopen(read, "rb") as file:
        assert is_readable(file)
