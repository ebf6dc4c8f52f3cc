"""The folders, names, addresses and ports of a cluster, defined in one place.

There are two folders. The *cache* outlives clusters: binaries, the pause image, the registry's
images. The *state* is one cluster and is removed by `down`.

Every node has its own addresses, so all of them use Kubernetes' usual ports on one machine:

    10.88.0.1    the control plane (API server, DNS), on a bridge without members
    10.88.N.1    node N's kubelet, on the bridge that its pods 10.88.N.0/24 are attached to
    127.88.0.1   reachable only on this machine: etcd, health checks of the control plane
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

# node-a to node-z; each also has its own third octet of the address.
MAX_NODES = len(string.ascii_lowercase)


def default_cache() -> Path:
    """The folder for things that are expensive to build, outside the checkout."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().resolve() / "resile"


@dataclass(frozen=True)
class Node:
    """A node: the names, addresses and files of its containerd and kubelet."""

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
        """The name of its CNI network, also the prefix of CNI's own files."""
        return f"resile-{self.name}"

    @property
    def containerd_root(self) -> Path:
        """Images and other data that must survive the loss of the node."""
        return self.folder / "containerd"

    @property
    def containerd_state(self) -> Path:
        """The data that a real node keeps in /run and loses on a power failure."""
        return self.folder / "run"

    @property
    def containerd_socket(self) -> Path:
        """The socket; in the node's namespace at its usual path, which a kubelet polls for 5 s."""
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
        """The Kubernetes that is built here."""
        folder = self.cache / f"kubernetes-{KUBERNETES_VERSION}"
        return Release(folder, KUBERNETES_VERSION)

    @property
    def release(self) -> Release:
        """The Kubernetes that the cluster runs, or that a new cluster would run."""
        return remembered(self.release_note) or self.built

    @property
    def registry(self) -> Path:
        """The registry's images; they outlive the cluster."""
        return self.cache / "registry"

    @property
    def pause_image(self) -> Path:
        return self.cache / "pause-1.tar"

    @property
    def lock(self) -> Path:
        """Held while the cluster is changed; not in the state folder, which `down` removes."""
        return self.cache / "cluster.lock"

    @property
    def state(self) -> Path:
        return self.cache / "cluster"

    @property
    def removed(self) -> Path:
        """The state of a removed cluster, while it is being deleted."""
        return self.cache / "cluster.removed"

    @property
    def kubeconfig(self) -> Path:
        return self.state / "kubeconfig"

    @property
    def release_note(self) -> Path:
        """Records the Kubernetes that the cluster was brought up with."""
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
        """The entries of the cluster's DNS, in the format of /etc/hosts."""
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
        """The existing nodes of this cluster: each has a folder."""
        every = (self.node(index) for index in range(1, MAX_NODES + 1))
        return [node for node in every if node.folder.is_dir()]


def node_name(index: int) -> str:
    """node-a for 1, node-b for 2, and so on."""
    return f"node-{string.ascii_lowercase[index - 1]}"
