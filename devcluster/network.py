"""The cluster's bridges: one for the control plane and one for each node's pods.

They exist before anything is attached to them, because a kubelet accepts only an address that the
machine has. The machine itself routes between them, so there is no overlay network.
"""

import ipaddress
from pathlib import Path

from devcluster.commands import run
from devcluster.layout import CONTROL_ADDRESS, CONTROL_BRIDGE, MAX_NODES, SERVICE_NETWORK, Node

_PREFIX_LENGTH = 24


def ensure_control_bridge() -> None:
    """Create the control plane's bridge, and a route to services for machines without a default."""
    _ensure_bridge(CONTROL_BRIDGE, CONTROL_ADDRESS)
    run("ip", "route", "replace", SERVICE_NETWORK, "dev", CONTROL_BRIDGE)


def ensure_node_bridge(node: Node) -> None:
    _ensure_bridge(node.bridge, node.address)


def remove_bridges() -> None:
    """Remove all bridges; addresses and routes go with them."""
    for index in range(MAX_NODES + 1):
        if _exists(f"resile{index}"):
            run("ip", "link", "delete", f"resile{index}")


def hardware_address(address: str) -> str:
    """A fixed MAC address: by default a bridge takes a member's, which changes with the pods."""
    return ":".join(f"{byte:02x}" for byte in b"\x0a\x58" + ipaddress.ip_address(address).packed)


def _ensure_bridge(name: str, address: str) -> None:
    if not _exists(name):
        run("ip", "link", "add", name, "address", hardware_address(address), "type", "bridge")
    run("ip", "address", "replace", f"{address}/{_PREFIX_LENGTH}", "dev", name)
    run("ip", "link", "set", name, "up")


def _exists(name: str) -> bool:
    return Path(f"/sys/class/net/{name}").exists()
