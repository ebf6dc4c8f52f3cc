"""Checks that this machine can run the cluster, and its architecture."""

import os
import platform
import shutil
import sys

from devcluster.cgroups import mounted_hierarchies
from devcluster.errors import Unsupported

_NEEDED_CONTROLLERS = {"cpu", "cpuset", "memory", "pids"}
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def check_machine() -> None:
    """Raise Unsupported with the first reason why the cluster cannot run here."""
    if sys.platform != "linux":
        raise Unsupported(f"the cluster runs on Linux only; this is {platform.system()}")
    if os.geteuid() != 0:
        raise Unsupported("the cluster makes namespaces, bridges and cgroups: run this as root")
    if not shutil.which("apt-get"):
        raise Unsupported("there is no apt-get: containerd and the others come from Debian")
    mounted = {path.name for path in mounted_hierarchies()}
    if missing := sorted(
        _NEEDED_CONTROLLERS - {part for name in mounted for part in name.split(",")}
    ):
        raise Unsupported(
            f"Kubernetes 1.20 needs cgroup version 1, and these controllers are not mounted: "
            f"{', '.join(missing)} (boot with systemd.unified_cgroup_hierarchy=0)"
        )
    architecture()


def architecture() -> str:
    """The machine's architecture as Go and container images call it."""
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        raise Unsupported(f"nothing here was tried on {machine}")
    return _ARCHITECTURES[machine]
