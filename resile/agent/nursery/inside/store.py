"""The host of one round's store: a torch TCPStore server in a process that does nothing else.

The nursery binds the listening socket to the given address (by itself a TCPStore would listen on
all), and its port is known before the server runs: the kernel queues connections meanwhile. If
torch is already loaded, the host is a fork and serves at once; else this file is run by a fresh
interpreter, which loads torch while the workers do the same.
"""

import importlib
import os
import signal
import socket
import sys
from datetime import timedelta

_BACKLOG = 4096
_CONNECT_TIMEOUT = timedelta(minutes=5)
"""Timeout for the host's own client to connect, long enough for an overloaded machine."""


def listen(host: str, port: int = 0) -> socket.socket:
    """Listen on a port of `host`, a free one for 0."""
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    if port:
        # Connections of the last round may linger on this port; a second listener still fails.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def serve(descriptor: int, *, host: str, port: int) -> None:
    """Serve a store on a listening socket until killed."""
    # Not an import statement: this package must be importable and type-checked without torch.
    distributed = importlib.import_module("torch.distributed")
    store = distributed.TCPStore(
        host,
        port,
        is_master=True,
        wait_for_workers=False,
        timeout=_CONNECT_TIMEOUT,
        master_listen_fd=descriptor,
    )
    while store is not None:
        signal.pause()


def command(descriptor: int, *, host: str, port: int) -> list[str]:
    """Return the command that serves in a fresh interpreter."""
    return [sys.executable, os.path.abspath(__file__), str(descriptor), host, str(port)]


if __name__ == "__main__":
    # The interpreter put this folder on the path; torch must not import from it.
    sys.path[:] = [entry for entry in sys.path if entry != os.path.dirname(__file__)]
    serve(int(sys.argv[1]), host=sys.argv[2], port=int(sys.argv[3]))
