"""Kernel settings that the cluster changes, saved before and restored by `down`.

The cluster itself needs forwarding between the nodes' bridges. The other settings are changed by
the kubelets and kube-proxy when they start.
"""

import json
from pathlib import Path

from devcluster.files import write_json

_FORWARDING = "net/ipv4/ip_forward"
_CHANGED = (
    _FORWARDING,
    "net/ipv4/conf/all/route_localnet",
    "net/bridge/bridge-nf-call-iptables",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)

_SETTINGS = Path("/proc/sys")


def prepare_kernel(memory: Path) -> None:
    """Save the settings, unless they are saved already, and turn forwarding on."""
    if not memory.exists():
        present = [name for name in _CHANGED if (_SETTINGS / name).exists()]
        write_json(memory, {name: (_SETTINGS / name).read_text().strip() for name in present})
    (_SETTINGS / _FORWARDING).write_text("1")


def restore_kernel(memory: Path) -> None:
    """Restore the saved settings."""
    if memory.exists():
        for name, value in json.loads(memory.read_text()).items():
            (_SETTINGS / name).write_text(value)
