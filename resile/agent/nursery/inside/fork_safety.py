"""Checks that a process can be forked safely: no threads, no accelerator, no helper processes.

A fork copies memory but only the calling thread. Locks held by other threads stay locked forever in
the copy, and a driver's state belongs to the process that opened the device. Threads that a library
stops by itself before a fork are safe: OpenBLAS (numpy, scipy) does so with its pool. A trial fork
therefore needs no list of names: threads that still exist afterwards are not known to be safe.
OpenMP's pools (torch, scikit-learn) start with the first parallel region, which importing does not
reach.
"""

import os
import sys

_getpid = os.getpid
"""Saved before imports are observed: our own calls must not be attributed to a library."""

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
"""Prefixes of accelerators' device files: NVIDIA, AMD, Intel, TPU, Ascend, Gaudi, Neuron."""

_TORCH_BACKENDS = ("cuda", "xpu", "mtia", "npu", "hpu")


class ForkUnsafe(Exception):
    """Raised if no worker may be forked from this process.

    Attributes:
        thread: the kernel's id of the thread that prevents it, if it is a thread.
    """

    def __init__(self, reason: str, thread: str = "") -> None:
        super().__init__(reason)
        self.thread = thread


def check_fork_safety() -> None:
    """Raise `ForkUnsafe` if a fork now would not be safe."""
    _check_accelerators()
    _check_python_threads()
    extra = kernel_threads()
    if extra:
        raise ForkUnsafe("runs a thread of its own", extra[0])


def check_after_trial_fork() -> None:
    """Fork a child that does nothing, reap it, and call `check_fork_safety`.

    Raises `ForkUnsafe` as well if there are other child processes: a worker would not be the parent
    of the nursery's helpers.
    """
    _check_children()
    _check_python_threads()
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    check_fork_safety()


def kernel_threads() -> list[str]:
    """Return the kernel's ids of this process's threads, without the main one."""
    try:
        tasks = os.listdir(_TASKS)
    except OSError:
        return []
    main = str(_getpid())
    return [task for task in tasks if task != main]


def held_device(descriptors: str = _DESCRIPTORS) -> str | None:
    """Return an accelerator's device file that this process has open, if any."""
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
        raise ForkUnsafe(f"holds the accelerator {device}")
    for backend in _TORCH_BACKENDS:
        module = sys.modules.get(f"torch.{backend}")
        is_initialized = getattr(module, "is_initialized", None)
        if is_initialized is not None and is_initialized():
            raise ForkUnsafe(f"has initialised torch.{backend}")


def _check_python_threads() -> None:
    threading = sys.modules.get("threading")
    if threading is None:
        return
    for thread in threading.enumerate():
        if thread is not threading.main_thread():
            raise ForkUnsafe(f"runs the thread {thread.name!r}", str(thread.native_id or ""))


def has_children() -> bool:
    """Whether this process has children that are not reaped."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _check_children() -> None:
    if has_children():
        raise ForkUnsafe("has started another process")
