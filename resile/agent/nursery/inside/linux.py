"""Functions that only Linux has: `prctl`, and the kernel's record of the command line.

All of them are optional: a convenience, or a second line of defence. Without the system call or
ctypes they do nothing, and the return value says so.
"""

import os
import signal
import sys
from typing import Any

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_MM = 35
_PR_SET_MM_MAP = 14


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
    """Let the kernel kill this process when its parent dies. Exits at once if it already has.

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


def show_environment(environ: dict[str, str]) -> bool:
    """Let the kernel show these variables in `/proc/PID/environ`.

    It shows the memory in which it placed those that the nursery was started with. Unprivileged
    processes may set another address, in one call that takes the whole memory layout of a process;
    kernels without CONFIG_CHECKPOINT_RESTORE do not have it and show the nursery's variables.
    """
    places = _stat_fields(26, 27, 45, 46, 47, 28, 48, 49)
    if _libc is None or len(places) < 8:
        return False
    import ctypes

    class Layout(ctypes.Structure):
        _fields_ = (
            *((f"address_{number}", ctypes.c_uint64) for number in range(11)),
            ("auxv", ctypes.c_void_p),
            ("auxv_size", ctypes.c_uint32),
            ("exe_fd", ctypes.c_uint32),
        )

    text = b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in environ.items())
    memory = ctypes.create_string_buffer(text, len(text))
    start = ctypes.addressof(memory)
    _libc.sbrk.restype = ctypes.c_void_p
    *code_and_data, stack, arguments, arguments_end = places
    layout = Layout(*code_and_data, 0, stack, arguments, arguments_end, start, start + len(text))
    layout.exe_fd = 0xFFFFFFFF
    layout.address_5 = _libc.sbrk(0)  # the end of the heap, as late as possible: it moves
    size = ctypes.sizeof(layout)
    if _libc.prctl(_PR_SET_MM, _PR_SET_MM_MAP, ctypes.byref(layout), size, 0) != 0:
        return False
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))  # it must outlive everything
    return True


class ProcessTitle:
    """Changes what `ps`, `top` and `pgrep -f` show for this process, until it is dropped.

    A nursery is started with the workers' command line, and a search for workers must not find it.
    The kernel shows the memory in which it placed the arguments, so writing there changes what is
    shown; the interpreter copied them when it started and does not read them again.
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
    """Return the address and the bytes of the arguments; nothing if that is not reliable."""
    try:
        with open("/proc/self/cmdline", "rb") as file:
            shown = file.read()
    except OSError:
        return 0, b""
    start, end = _stat_fields(48, 49) or (0, 0)
    if _libc is None or not start or end - start != len(shown):
        return 0, b""
    import ctypes

    return (start, shown) if ctypes.string_at(start, len(shown)) == shown else (0, b"")


def _stat_fields(*numbers: int) -> list[int]:
    """Return fields of `/proc/self/stat`, as proc(5) counts them; nothing if it cannot be read."""
    try:
        with open("/proc/self/stat", "rb") as file:
            # The two fields up to the name are cut off, and fields are counted from 1.
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return []
    return [int(fields[number - 3]) for number in numbers]
