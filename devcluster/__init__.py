"""A real Kubernetes cluster on one machine, for development and tests.

`python -m devcluster --help` lists the commands; docs/cluster.md describes how to use them. Tests
use `from devcluster import Cluster`. API server, scheduler, controller manager, kubelets and
containers are the real ones; a node is a containerd and a kubelet with their own folders, address,
bridge and cgroups.

Modules:

    layout          every path, name, address and port
    machine         checks of this machine;  packages: Debian packages, installed when missing
    build           Kubernetes' binaries, from source (apt_sources: apt entries for the source,
                    repairs: patches for a newer Go)
    release         the version of Kubernetes, and the differences between versions
    credentials     keys, certificates (certificates: how they are signed) and kubeconfigs
    daemons         long-running processes;  identity: pid files;  detach: starts a process
    control_plane   command lines of the control plane
    nodes           configuration of each node's programs;  pause: the image of every pod
    node_life       starting a node and simulating its loss
    namespaces, cgroups, network, firewall, kernel
                    kernel state of the cluster, created and removed
    dns             Services and Endpoints as names (hosts: which names)
    going_up, going_down
                    bring the cluster up, and remove it
    cluster         the API for tests;  status: the state as a table
"""

from devcluster.cluster import Cluster
from devcluster.errors import ClusterError, NotFound

__all__ = ["Cluster", "ClusterError", "NotFound"]
