"""A mount namespace for each node, so that nodes on one machine do not share folders.

A kubelet's paths for logs and for device plugins, CNI's cache and containerd's sockets cannot all
be configured. Shared, they do harm: a kubelet deletes every log folder whose pod it does not know,
which are all pods of the other nodes. So each node has its own folders mounted over those paths,
visible only to its containerd, its kubelet and their child processes. Two more things follow: all
mounts of a node vanish with its last process, and the namespace shows which processes belong to it.

The namespace is kept alive by a file it is bound to. `ready` beside it means that all mounts exist;
a namespace without it is incomplete, and is created again.
"""

import os
import shutil
from pathlib import Path

from devcluster.cgroups import end_processes
from devcluster.commands import run
from devcluster.errors import ClusterError
from devcluster.layout import Node
from devcluster.waiting import holds_within

_GONE_WITHIN = 20.0

# Paths in the node's namespace, and the subfolder of the node's folder mounted there.
OWN_FOLDERS = {
    "/run/containerd": "run",
    "/var/lib/cni": "cni-cache",
    "/var/lib/kubelet": "kubelet",
    "/var/log/containers": "container-logs",
    "/var/log/pods": "pod-logs",
}


def holder(node: Node) -> Path:
    """The file that the namespace is bound to."""
    return node.folder / "namespace" / "mnt"


def entering(node: Node, *argv: str) -> tuple[str, ...]:
    """A command line that runs a program in the node's namespace, under the same pid."""
    return ("/usr/bin/nsenter", f"--mount={holder(node)}", "--", *argv)


def ensure_namespace(node: Node) -> None:
    """Create the namespace with all its mounts, unless it exists."""
    ready = holder(node).with_name("ready")
    if ready.exists() and _is_mounted(holder(node)):
        return
    remove_namespace(node)
    folder = holder(node).parent
    folder.mkdir(parents=True, exist_ok=True)
    # A namespace can be bound only to a file on a mount that is not shared.
    run("mount", "--bind", str(folder), str(folder))
    run("mount", "--make-private", str(folder))
    holder(node).touch()
    run("unshare", f"--mount={holder(node)}", "--propagation", "private", "true")
    shutil.rmtree(node.containerd_state, ignore_errors=True)  # /run is empty after a boot.
    for path, name in OWN_FOLDERS.items():
        own = node.folder / name
        own.mkdir(exist_ok=True)
        Path(path).mkdir(parents=True, exist_ok=True)
        run(*entering(node, "/usr/bin/mount", "--bind", str(own), path))
    ready.touch()


def processes(node: Node) -> set[int]:
    """Every process in the node's namespace: containerd, kubelet, shims and their helpers."""
    if not _is_mounted(holder(node)):
        return set()
    inode = holder(node).stat().st_ino
    every = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return {pid for pid in every if _mount_namespace(pid) == f"mnt:[{inode}]"}


def remove_namespace(node: Node) -> None:
    """Kill every process in the namespace, then unmount its file."""

    def empty() -> bool:
        end_processes(processes(node))
        return not processes(node)

    if not holds_within(_GONE_WITHIN, empty):
        raise ClusterError(f"processes of {node.name} survive SIGKILL: {processes(node)}")
    holder(node).with_name("ready").unlink(missing_ok=True)
    for mount in (holder(node), holder(node).parent):
        while _is_mounted(mount):
            run("umount", "--lazy", str(mount))


def remove_mount_points() -> None:
    """Remove the empty folders that were created as mount points."""
    for path in OWN_FOLDERS:
        folder = Path(path)
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def mounts_below(folder: Path) -> list[Path]:
    """The mount points in a folder that this process sees."""
    return [point for point in _mount_points() if point.is_relative_to(folder)]


def _is_mounted(path: Path) -> bool:
    return path in _mount_points()


def _mount_points() -> list[Path]:
    fields = (line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines())
    return [Path(field.replace("\\040", " ")) for field in fields]


def _mount_namespace(pid: int) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/ns/mnt")  # noqa: PTH115
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
