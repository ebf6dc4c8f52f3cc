"""The Unix socket of a job's API, in the job's folder.

The address of a Unix socket has at most 107 bytes, and a folder's path may be longer. So the folder
is opened and the socket addressed through ``/proc/self/fd``, which is always short.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["SOCKET", "listening_socket", "socket_address"]

SOCKET = "api.sock"


@contextmanager
def socket_address(folder: Path) -> Iterator[str]:
    """Yield the address of the socket in ``folder``, valid within the block; raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET}"
    finally:
        os.close(descriptor)


def listening_socket(folder: Path) -> socket.socket:
    """Return a new socket in ``folder`` that only its owner can connect to; raises OSError."""
    (folder / SOCKET).unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with socket_address(folder) as address:
            listener.bind(address)
        (folder / SOCKET).chmod(0o600)  # before listen(), so that no other user can connect
    except OSError:
        listener.close()
        raise
    return listener
