"""Where everything is: folders, names, addresses and ports. All parts agree because they ask here.

Two folders. The *cache* outlives clusters: binaries, the pause image, the registry's images. The
*state* is one cluster and is gone after `down`.

Every node has addresses of its own, so all of them use Kubernetes' usual ports side by side:

    10.88.0.1    the control plane (API server, DNS), on a bridge without members
    10.88.N.1    node N's kubelet, on the bridge that its pods 10.88.N.0/24 are attached to
    127.88.0.1   what only this machine may reach: etcd, health checks of the control plane
    127.88.N.1   health checks of node N
"""

import os
import string
from dataclasses import dataclass
from pathlib import Path

from devcluster.release import Release, remembered

KUBERNETES_VERSION = "1.20.2"

CLUSTER_NETWORK = "10.88.0.0/16"
SERVICE_NETWORK = "10.96.0.0/16"
# By convention the first address of the service network is the API server's.
API_SERVICE_ADDRESS = "10.96.0.1"
CLUSTER_DOMAIN = "cluster.local"

CONTROL_BRIDGE = "resile0"
CONTROL_ADDRESS = "10.88.0.1"
CONTROL_LOOPBACK = "127.88.0.1"
API_PORT = 6443
API_URL = f"https://{CONTROL_ADDRESS}:{API_PORT}"
ETCD_URL = f"http://{CONTROL_LOOPBACK}:2379"
REGISTRY_ADDRESS = "127.0.0.1:5000"

PAUSE_IMAGE = "localhost/resile-pause:1"

# node-a to node-z; each also has its own third octet.
MAX_NODES = len(string.ascii_lowercase)


def default_cache() -> Path:
    """Where things stay that are dear to make, outside the checkout."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().resolve() / "resile"


@dataclass(frozen=True)
class Node:
    """One node: a containerd and a kubelet with everything they call their own."""

    index: int
    folder: Path

    @property
    def name(self) -> str:
        return node_name(self.index)

    @property
    def bridge(self) -> str:
        return f"resile{self.index}"

    @property
    def subnet(self) -> str:
        return f"10.88.{self.index}.0/24"

    @property
    def address(self) -> str:
        return f"10.88.{self.index}.1"

    @property
    def loopback(self) -> str:
        return f"127.88.{self.index}.1"

    @property
    def cgroup(self) -> str:
        """Relative to every controller's root."""
        return f"resile/{self.name}"

    @property
    def network(self) -> str:
        """The name of its CNI network; it also begins the names of CNI's own files."""
        return f"resile-{self.name}"

    @property
    def containerd_root(self) -> Path:
        """Images and what must survive the loss of the node."""
        return self.folder / "containerd"

    @property
    def containerd_state(self) -> Path:
        """What a real node has in /run and loses with its power."""
        return self.folder / "run"

    @property
    def containerd_socket(self) -> Path:
        """Its usual path in the node's namespace: a kubelet searches there for five seconds."""
        return self.containerd_state / "containerd.sock"

    @property
    def containerd_config(self) -> Path:
        return self.folder / "containerd.toml"

    @property
    def cni_config(self) -> Path:
        return self.folder / "cni"

    @property
    def kubelet_root(self) -> Path:
        return self.folder / "kubelet"

    @property
    def kubelet_config(self) -> Path:
        return self.folder / "kubelet.yaml"

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"


@dataclass(frozen=True)
class Layout:
    """The files of one cluster and of the cache behind it."""

    cache: Path

    @classmethod
    def default(cls) -> "Layout":
        return cls(default_cache())

    @property
    def built(self) -> Release:
        """Kubernetes as it is built here."""
        folder = self.cache / f"kubernetes-{KUBERNETES_VERSION}"
        return Release(folder, KUBERNETES_VERSION)

    @property
    def release(self) -> Release:
        """Kubernetes as the cluster runs it, or would."""
        return remembered(self.release_note) or self.built

    @property
    def registry(self) -> Path:
        """Images stay when the cluster goes."""
        return self.cache / "registry"

    @property
    def pause_image(self) -> Path:
        return self.cache / "pause-1.tar"

    @property
    def lock(self) -> Path:
        """Held by whoever changes the cluster; not in the state folder, which comes and goes."""
        return self.cache / "cluster.lock"

    @property
    def state(self) -> Path:
        return self.cache / "cluster"

    @property
    def removed(self) -> Path:
        """The state of a cluster that is gone, for the moment it takes to remove it."""
        return self.cache / "cluster.removed"

    @property
    def kubeconfig(self) -> Path:
        return self.state / "kubeconfig"

    @property
    def release_note(self) -> Path:
        """Which Kubernetes the cluster was brought up with."""
        return self.state / "kubernetes.json"

    @property
    def certificates(self) -> Path:
        return self.state / "pki"

    @property
    def processes(self) -> Path:
        return self.state / "processes"

    @property
    def logs(self) -> Path:
        return self.state / "logs"

    @property
    def etcd_data(self) -> Path:
        return self.state / "etcd"

    @property
    def hosts(self) -> Path:
        """What the cluster's DNS knows, in the format of /etc/hosts."""
        return self.state / "dns" / "hosts"

    @property
    def resolv_conf(self) -> Path:
        return self.state / "dns" / "resolv.conf"

    @property
    def registry_config(self) -> Path:
        return self.state / "registry.yaml"

    @property
    def kernel_settings(self) -> Path:
        """Kernel settings as they were before the cluster."""
        return self.state / "kernel-settings.json"

    def component_kubeconfig(self, name: str) -> Path:
        return self.certificates / f"{name}.kubeconfig"

    def node(self, index: int) -> Node:
        return Node(index, self.state / "nodes" / node_name(index))

    def nodes(self) -> list[Node]:
        """The nodes this cluster has so far: each has a folder."""
        every = (self.node(index) for index in range(1, MAX_NODES + 1))
        return [node for node in every if node.folder.is_dir()]


def node_name(index: int) -> str:
    """node-a for 1, node-b for 2, and so on."""
    return f"node-{string.ascii_lowercase[index - 1]}"
