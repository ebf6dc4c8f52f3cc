"""What only Linux offers, by way of `prctl` and the kernel's record of the command line.

Everything here is a comfort or a second line of defence. Where the system call or ctypes is not
there, nothing happens and the caller is told by the return value.
"""

import os
import signal
import sys
from typing import Any

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15


def _c_library() -> Any:
    if sys.platform != "linux":
        return None
    try:
        import ctypes

        return ctypes.CDLL(None)
    except (ImportError, OSError):
        return None


_libc = _c_library()


def die_with(parent: int) -> bool:
    """Have the kernel kill this process when its parent dies. Ends it at once if it already has.

    The kernel watches the parent's *thread* that forked; a nursery has only one.
    """
    if _libc is None:
        return False
    _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        os._exit(128 + signal.SIGKILL)
    return True


def outlive_parent() -> None:
    """Undo `die_with`."""
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, 0)


class Disguise:
    """What `ps`, `top` and `pgrep -f` show for this process, until it is dropped.

    A nursery is started with the workers' command line, and whoever looks for workers must not
    find it. The kernel shows the memory in which it placed the arguments, so writing there changes
    what is shown; the interpreter copied them when it started and never looks there again.
    """

    def __init__(self, title: str, name: bytes) -> None:
        self._start, self._arguments = _arguments()
        self._name = _name()
        room = len(self._arguments)
        self._show(title.encode()[: max(0, room - 1)].ljust(room, b"\0"), name)

    def drop(self) -> None:
        self._show(self._arguments, self._name)

    def _show(self, arguments: bytes, name: bytes) -> None:
        if _libc is None:
            return
        if name:
            _libc.prctl(_PR_SET_NAME, name)
        if arguments:
            import ctypes

            ctypes.memmove(self._start, arguments, len(arguments))


def _name() -> bytes:
    try:
        with open("/proc/self/comm", "rb") as file:
            return file.read().rstrip(b"\n")
    except OSError:
        return b""


def _arguments() -> tuple[int, bytes]:
    """Return where the arguments lie and what they are; nothing if that cannot be trusted."""
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        with open("/proc/self/cmdline", "rb") as file:
            shown = file.read()
    except OSError:
        return 0, b""
    # Fields 48 and 49 of proc(5), counted from 1; the two up to the name are cut off.
    start, end = int(fields[45]), int(fields[46])
    if _libc is None or not start or end - start != len(shown):
        return 0, b""
    import ctypes

    return (start, shown) if ctypes.string_at(start, len(shown)) == shown else (0, b"")
