"""A real Kubernetes cluster on one machine, for development and tests.

`python -m devcluster --help` lists the commands; docs/cluster.md tells how to use them. Tests say
`from devcluster import Cluster`. API server, scheduler, controller manager, kubelets and containers
are the real ones; a node is a containerd and a kubelet with folders, an address, a bridge and
cgroups of their own.

How the rooms fit together:

    layout          every path, name, address and port
    machine         can this machine do it;  packages: what Debian adds
    build           Kubernetes' binaries, from source (apt_sources: where the source is, repairs:
                    what a newer Go needs changed in it)
    release         which Kubernetes a cluster runs, and what differs between versions
    credentials     keys, certificates (certificates: how they are signed) and kubeconfigs
    daemons         processes that stay;  identity: who they are;  detach: how they begin
    control_plane   command lines of what runs once
    nodes           configuration of what runs on each node;  pause: the image of every pod
    node_life       a node's beginning and sudden end
    namespaces, cgroups, network, firewall, kernel
                    what the kernel keeps for the cluster, made and removed
    dns             Services and Endpoints as names (hosts: which names)
    going_up, going_down
                    from anything to a cluster, and to nothing
    cluster         what tests use;  status: what a person sees
"""

from devcluster.cluster import Cluster
from devcluster.errors import ClusterError, NotFound

__all__ = ["Cluster", "ClusterError", "NotFound"]
