"""The host of one round's store: a torch TCPStore server in a process that does nothing else.

The listening socket is bound by the nursery, to the one address it was given (by itself a TCPStore
would listen on all), and its port is told before the server runs: the kernel keeps the callers
waiting meanwhile. Where torch is already loaded the host is a fork and serves at once; else this
file is run by a fresh interpreter, which loads torch while the workers do the same.
"""

import importlib
import os
import signal
import socket
import sys
from datetime import timedelta

_BACKLOG = 4096
_PATIENCE = timedelta(minutes=5)
"""How long the host's own client may take to connect, on a machine as busy as may be."""


def listen(host: str, port: int = 0) -> socket.socket:
    """Bind a port of `host`, a free one for 0, and take connections on it."""
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    if port:
        # The last round's connections to this port may linger; another listener still excludes.
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
    # Not an import statement: this room must be importable, and checkable, without torch.
    distributed = importlib.import_module("torch.distributed")
    store = distributed.TCPStore(
        host,
        port,
        is_master=True,
        wait_for_workers=False,
        timeout=_PATIENCE,
        master_listen_fd=descriptor,
    )
    while store is not None:
        signal.pause()


def command(descriptor: int, *, host: str, port: int) -> list[str]:
    """Return the command that serves in a fresh interpreter."""
    return [sys.executable, os.path.abspath(__file__), str(descriptor), host, str(port)]


if __name__ == "__main__":
    # This folder, which the interpreter put there, has nothing to offer to torch.
    sys.path[:] = [entry for entry in sys.path if entry != os.path.dirname(__file__)]
    serve(int(sys.argv[1]), host=sys.argv[2], port=int(sys.argv[3]))
