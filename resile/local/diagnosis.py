"""Checks of this machine for `resile doctor`: what works, and what jobs on it will miss.

Every check really tries the feature where that is cheap and leaves no trace: a cgroup is created
and removed, a port bound and closed. Nothing is installed or changed.
"""

from __future__ import annotations

import errno
import os
import platform
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import metadata, util
from pathlib import Path

from resile.launch.state_dir import state_home
from resile.local.capacity import CPU, MEMORY, Capacity
from resile.local.limits.cgroups import create_job_cgroups, remove
from resile.platform.finding import Finding, Level
from resile.snapshots.memory_budget import find_budget, gibibytes
from resile.system.loop_thread import run_in_thread
from resile.wire.endpoint import Endpoint, is_this_machine
from resile.wire.http_client import is_master

__all__ = ["diagnose_machine"]

AREA = "machine"

OLDEST_PYTHON = (3, 10)
OLDEST_TORCH = (2, 4)

LEAST_MEMORY = 1 << 30
"""Bytes. A worker with torch imported takes about 300 MiB, a snapshot two copies of the state."""

LEAST_SHARED_MEMORY = 256 << 20
"""Bytes. Containers have 64 MiB by default, which a few batches of a DataLoader fill."""

LEAST_DISK = 1 << 30

LEAST_DESCRIPTORS = 1024
"""A master needs one for each node and reserves half for other clients; a worker some hundreds."""

PROBE_TIMEOUT = 10.0

EXTRAS = {
    "kubernetes": ("cryptography", "the operator"),
    "s3": ("s3fs", "s3:// checkpoints"),
    "gcs": ("gcsfs", "gs:// checkpoints"),
    "parquet": ("pyarrow", "Parquet data"),
}
"""The optional dependencies: a module that shows that one is installed, and its purpose."""


def diagnose_machine(endpoint: Endpoint) -> list[Finding]:
    """Run all checks; ``endpoint``: the address that a master would listen on."""
    checks: tuple[Callable[[], Finding], ...] = (
        _system,
        _python,
        _torch,
        _extras,
        _cpus,
        _memory,
        _snapshot_memory,
        _shared_memory,
        _cgroups,
        _state_folder,
        _temporary_folder,
        _descriptors,
        lambda: _port(endpoint),
        _host_name,
        _namespaces,
        _ptrace,
    )
    return [check() for check in checks]


def _finding(check: str, found: str, *, level: Level = Level.OK, advice: str = "") -> Finding:
    return Finding(AREA, check, level, found, advice)


def _system() -> Finding:
    found = f"{platform.system()} {platform.release()}, {platform.machine()}"
    if sys.platform == "linux":
        return _finding("system", found)
    return _finding("system", found, level=Level.ERROR, advice="Resile runs on Linux only")


def _python() -> Finding:
    found = platform.python_version()
    if sys.version_info >= OLDEST_PYTHON:
        return _finding("python", found)
    advice = f"Resile needs Python {OLDEST_PYTHON[0]}.{OLDEST_PYTHON[1]} or later"
    return _finding("python", found, level=Level.ERROR, advice=advice)


def _torch() -> Finding:
    """Check torch's version without importing it, which takes a second."""
    try:
        version = metadata.version("torch")
    except metadata.PackageNotFoundError:
        advice = "scripts that use torch will fail here: pip install torch"
        return _finding("torch", "not installed", level=Level.WARNING, advice=advice)
    oldest = ".".join(map(str, OLDEST_TORCH))
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers < OLDEST_TORCH:
        advice = f"the training library is made for {oldest} and later"
        return _finding("torch", version, level=Level.WARNING, advice=advice)
    return _finding("torch", version)


def _extras() -> Finding:
    present = {name for name, (module, _) in EXTRAS.items() if util.find_spec(module)}
    missing = [f"{name} ({EXTRAS[name][1]})" for name in EXTRAS if name not in present]
    found = ", ".join(name for name in EXTRAS if name in present) or "none"
    if not missing:
        return _finding("extras", found)
    advice = f"not installed: {', '.join(missing)}; pip install 'resile[NAME]' adds one"
    return _finding("extras", found, level=Level.NOTE, advice=advice)


def _cpus() -> Finding:
    capacity = Capacity.of_this_machine()
    return _finding("capacity", f"{capacity} (as `resile up` counts it)")


def _memory() -> Finding:
    room = find_budget()
    found = f"{gibibytes(room.free)} free, {room.limited_by}"
    if room.free >= LEAST_MEMORY:
        return _finding("memory", found)
    advice = "workers may run out of memory, and snapshots may not fit"
    return _finding("memory", found, level=Level.WARNING, advice=advice)


def _snapshot_memory() -> Finding:
    """Check for memfds: snapshots are kept in them, as they outlive the worker that filled them."""
    try:
        os.close(os.memfd_create("resile-doctor"))
    except (AttributeError, OSError) as error:
        advice = "snapshots in memory are not possible; only checkpoints on storage are written"
        return _finding("snapshots", f"no memfd: {error}", level=Level.WARNING, advice=advice)
    return _finding("snapshots", "memory files (memfd) can be created")


def _shared_memory(folder: Path = Path("/dev/shm")) -> Finding:
    try:
        free = shutil.disk_usage(folder).free
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        advice = "a DataLoader with workers will fail; mount a tmpfs at /dev/shm"
        found = f"{folder} cannot be used: {error.strerror}"
        return _finding("shared memory", found, level=Level.WARNING, advice=advice)
    found = f"{gibibytes(free)} free at {folder}"
    if free >= LEAST_SHARED_MEMORY:
        return _finding("shared memory", found)
    advice = (
        "a DataLoader with workers may die of a bus error; give a container more (--shm-size, or "
        "an emptyDir with medium: Memory at /dev/shm)"
    )
    return _finding("shared memory", found, level=Level.WARNING, advice=advice)


def _cgroups() -> Finding:
    homes = create_job_cgroups("doctor", (MEMORY, CPU))
    for home in homes.values():
        remove(home.folder)
    if not homes:
        advice = (
            "`resile up` polls the memory of nodes instead of limiting it, and does not limit "
            "their CPU; run it as root or in a delegated cgroup (systemd-run --user --scope -p "
            "Delegate=yes …)"
        )
        return _finding("cgroups", "none can be created", level=Level.NOTE, advice=advice)
    found = ", ".join(f"{name} (version {home.version.value})" for name, home in homes.items())
    return _finding("cgroups", f"limits for nodes: {found}")


def _state_folder() -> Finding:
    return _writable("state folder", state_home(), remedy="set $RESILE_HOME to another folder")


def _temporary_folder() -> Finding:
    return _writable("temporary folder", Path(tempfile.gettempdir()), remedy="set $TMPDIR")


def _writable(check: str, folder: Path, *, remedy: str) -> Finding:
    there = next(place for place in (folder, *folder.parents) if place.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            free = shutil.disk_usage(there).free
    except OSError as error:
        found = f"{folder} cannot be written: {error.strerror}"
        return _finding(check, found, level=Level.ERROR, advice=remedy)
    found = f"{folder}, {gibibytes(free)} free"
    if free >= LEAST_DISK:
        return _finding(check, found)
    advice = f"stores and logs may not fit; {remedy}"
    return _finding(check, found, level=Level.WARNING, advice=advice)


def _descriptors() -> Finding:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _finding("open files", "unlimited")
    if soft >= LEAST_DESCRIPTORS:
        return _finding("open files", f"up to {soft} a process")
    advice = f"a master serves at most {soft // 2} nodes; raise it with ulimit -n"
    return _finding("open files", f"up to {soft} a process", level=Level.WARNING, advice=advice)


def _port(endpoint: Endpoint) -> Finding:
    check = f"port {endpoint.port}"
    try:
        with socket.create_server((endpoint.host, endpoint.port)):
            return _finding(check, f"free at {endpoint.host}")
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            advice = "give --rdzv-endpoint an address of this machine and a port that it may use"
            found = f"cannot listen on {endpoint}: {error.strerror}"
            return _finding(check, found, level=Level.WARNING, advice=advice)
    if run_in_thread(is_master(endpoint)):
        return _finding(check, f"a Resile master listens on {endpoint}")
    advice = "another program listens there; give `resile run` another --rdzv-endpoint HOST:PORT"
    return _finding(check, f"{endpoint} is in use", level=Level.WARNING, advice=advice)


def _host_name() -> Finding:
    """Check the host's name: gloo listens on the address that it resolves to."""
    name = socket.gethostname()
    if is_this_machine(name):
        return _finding("host name", f"{name} is an address of this machine")
    advice = (
        "workers of several machines may not reach each other; put the name into /etc/hosts, or "
        "set GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME to the network interface"
    )
    found = f"{name} does not resolve to an address of this machine"
    return _finding("host name", found, level=Level.WARNING, advice=advice)


def _namespaces() -> Finding:
    """Check network namespaces by creating one in another process, with which it disappears."""
    newnet = 0x40000000
    probe = f"import ctypes,sys; sys.exit(ctypes.CDLL(None).unshare({newnet}) != 0)"
    tried = subprocess.run(
        [sys.executable, "-c", probe], check=False, capture_output=True, timeout=PROBE_TIMEOUT
    )
    if tried.returncode == 0:
        return _finding("namespaces", "network namespaces can be created")
    advice = "tests that cut networks, and a cluster on this machine, need root"
    found = "network namespaces cannot be created"
    return _finding("namespaces", found, level=Level.NOTE, advice=advice)


def _ptrace(setting: Path = Path("/proc/sys/kernel/yama/ptrace_scope")) -> Finding:
    try:
        scope = int(setting.read_text())
    except (OSError, ValueError):
        scope = 0
    if scope == 0 or (scope < 3 and os.geteuid() == 0):
        return _finding("ptrace", "debuggers (py-spy, gdb) can be attached to workers")
    advice = "py-spy and gdb cannot be attached to a running worker unless they run as root"
    return _finding("ptrace", f"restricted (scope {scope})", level=Level.NOTE, advice=advice)
