"""Start a node and simulate its sudden loss."""

import socket

from devcluster import nodes
from devcluster.cgroups import ensure_group, remove_group
from devcluster.credentials import ensure_node_credentials
from devcluster.daemons import Daemon, start_all, stop_all
from devcluster.errors import DaemonFailed
from devcluster.layout import Layout, Node
from devcluster.namespaces import ensure_namespace, remove_namespace
from devcluster.network import ensure_node_bridge
from devcluster.pause import import_pause_image
from devcluster.waiting import holds_within

_CONTAINERD_WITHIN = 30.0


def daemons(layout: Layout, node: Node) -> list[Daemon]:
    return [nodes.containerd(layout, node), nodes.kubelet(layout, node)]


def start_runtime(layout: Layout, node: Node) -> list[Daemon]:
    """Set up everything a kubelet needs, without an API server; return the daemons started."""
    ensure_node_credentials(layout, node)
    nodes.write_configuration(layout, node)
    ensure_node_bridge(node)
    ensure_group(node.cgroup)
    ensure_namespace(node)
    containerd = nodes.containerd(layout, node)
    started = start_all([containerd])
    if not holds_within(_CONTAINERD_WITHIN, lambda: _answers(node)):
        raise DaemonFailed(containerd.name, problem="does not answer", log=containerd.log)
    import_pause_image(layout, node)
    return started


def start_kubelet(layout: Layout, node: Node) -> list[Daemon]:
    return start_all([nodes.kubelet(layout, node)])


def lose(layout: Layout, node: Node) -> None:
    """Kill all its processes at once, like a power failure. Images and data stay."""
    stop_all(reversed(daemons(layout, node)))  # The kubelet first: it would restart pods.
    remove_namespace(node)
    remove_group(node.cgroup)


def _answers(node: Node) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(node.containerd_socket))
        except OSError:
            return False
    return True
