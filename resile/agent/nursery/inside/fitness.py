"""Whether a process may be forked into workers: no threads, no accelerator, no helper processes.

A fork copies memory but only the calling thread. Locks held by others stay locked for ever in the
copy, and a driver's state belongs to the process that opened the device. Threads that a library
takes down by itself before a fork are safe: OpenBLAS (numpy, scipy) does so with its pool. A trial
fork therefore tells good from bad without a list of names: what is still there afterwards is not
known to be safe. OpenMP's pools (torch, scikit-learn) start with the first parallel region, which
importing does not reach.
"""

import os
import sys

_getpid = os.getpid
"""Kept from the time before imports are observed: our own call is not a library's."""

_TASKS = "/proc/self/task"
_DESCRIPTORS = "/proc/self/fd"

_DEVICES = (
    "/dev/nvidia",
    "/dev/kfd",
    "/dev/dri/",
    "/dev/accel",
    "/dev/vfio/",
    "/dev/davinci",
    "/dev/hl",
    "/dev/neuron",
)
"""How the device files of accelerators begin: NVIDIA, AMD, Intel, TPU, Ascend, Gaudi, Neuron."""

_TORCH_BACKENDS = ("cuda", "xpu", "mtia", "npu", "hpu")


class Unfit(Exception):
    """No worker may be forked from this process.

    Attributes:
        thread: the kernel's id of the thread that is in the way, if it is a thread.
    """

    def __init__(self, reason: str, thread: str = "") -> None:
        super().__init__(reason)
        self.thread = thread


def check() -> None:
    """Raise `Unfit` if a fork now would not be safe."""
    _check_accelerators()
    _check_python_threads()
    extra = kernel_threads()
    if extra:
        raise Unfit("runs a thread of its own", extra[0])


def check_after_trial_fork() -> None:
    """Fork a child that does nothing, reap it, and `check`.

    Raises `Unfit` as well if there are other child processes: a helper of the nursery's would be
    nobody's in a worker.
    """
    _check_children()
    _check_python_threads()
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    check()


def kernel_threads() -> list[str]:
    """Return the ids of this process's threads, as the kernel sees them, but the main one."""
    try:
        tasks = os.listdir(_TASKS)
    except OSError:
        return []
    main = str(_getpid())
    return [task for task in tasks if task != main]


def held_device(descriptors: str = _DESCRIPTORS) -> str | None:
    """Return an accelerator's device file that this process holds open, if any."""
    try:
        numbers = os.listdir(descriptors)
    except OSError:
        return None
    for number in numbers:
        try:
            target = os.readlink(os.path.join(descriptors, number))
        except OSError:
            continue
        if target.startswith(_DEVICES):
            return target
    return None


def _check_accelerators() -> None:
    device = held_device()
    if device is not None:
        raise Unfit(f"holds the accelerator {device}")
    for backend in _TORCH_BACKENDS:
        module = sys.modules.get(f"torch.{backend}")
        is_initialized = getattr(module, "is_initialized", None)
        if is_initialized is not None and is_initialized():
            raise Unfit(f"has initialised torch.{backend}")


def _check_python_threads() -> None:
    threading = sys.modules.get("threading")
    if threading is None:
        return
    for thread in threading.enumerate():
        if thread is not threading.main_thread():
            raise Unfit(f"runs the thread {thread.name!r}", str(thread.native_id or ""))


def has_children() -> bool:
    """Whether this process has started others that it has not yet seen end."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _check_children() -> None:
    if has_children():
        raise Unfit("has started another process")
