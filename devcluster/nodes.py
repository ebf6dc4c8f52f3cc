"""The programs of a node and their configuration: a containerd and a kubelet in one namespace."""

import json
from collections.abc import Mapping
from typing import Any

from devcluster.daemons import Daemon
from devcluster.files import write, write_json, write_yaml
from devcluster.layout import CLUSTER_DOMAIN, CONTROL_ADDRESS, PAUSE_IMAGE, Layout, Node
from devcluster.namespaces import entering

# A lease is renewed after a quarter of its duration, so every 2 s. The controller manager waits
# 8 s: a busy machine may miss three renewals before the node counts as lost.
LEASE_SECONDS = 8
STATUS_UPDATE = "2s"
# The interval at which a kubelet syncs an unchanged pod. A node that comes back removes the pods
# that were deleted meanwhile only at the second sync.
SYNC = "10s"

_UNUSED_PLUGINS = (
    *("io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs"),
    *("io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"),
    "io.containerd.tracing.processor.v1.otlp",
)


def containerd(layout: Layout, node: Node) -> Daemon:
    argv = ("/usr/bin/containerd", "--config", str(node.containerd_config))
    return _daemon(layout, node, "containerd", entering(node, *argv))


def kubelet(layout: Layout, node: Node) -> Daemon:
    release = layout.release
    argv = (
        *(release.program("kubelet"), "--config", str(node.kubelet_config)),
        *("--kubeconfig", str(node.kubeconfig)),
        *("--hostname-override", node.name, "--node-ip", node.address),
        *(("--container-runtime", "remote") if release.has_dockershim else ()),
        *("--container-runtime-endpoint", f"unix://{node.containerd_socket}"),
    )
    # Otherwise it requests credentials from a cloud's metadata service, outside this machine.
    env = {"AWS_EC2_METADATA_DISABLED": "true"}
    return _daemon(layout, node, "kubelet", entering(node, *argv), env=env)


def write_configuration(layout: Layout, node: Node) -> None:
    """Write all configuration files of the two programs."""
    write(node.containerd_config, containerd_config(node))
    write_json(node.cni_config / "10-bridge.conflist", cni_config(node))
    write_yaml(node.kubelet_config, kubelet_config(layout, node))


def containerd_config(node: Node) -> str:
    """The text of containerd.toml; its strings are JSON strings, which TOML also accepts."""
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    return f"""\
version = 2
root = {json.dumps(str(node.containerd_root))}
state = {json.dumps(str(node.containerd_state))}
oom_score = 0
disabled_plugins = {json.dumps(_UNUSED_PLUGINS)}

[grpc]
address = {json.dumps(str(node.containerd_socket))}

[plugins."io.containerd.internal.v1.opt"]
path = {json.dumps(str(node.folder / "opt"))}

[{cri}]
sandbox_image = {json.dumps(PAUSE_IMAGE)}
stream_server_address = {json.dumps(node.loopback)}
netns_mounts_under_state_dir = true
# Lowering oom_score_adj takes CAP_SYS_RESOURCE, which root in a container or a VM may lack.
restrict_oom_score_adj = true

[{cri}.cni]
bin_dir = "/usr/lib/cni"
conf_dir = {json.dumps(str(node.cni_config))}

[{cri}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
"""


def cni_config(node: Node) -> dict[str, Any]:
    """The CNI network of a node: its bridge. No masquerading, as the machine routes itself."""
    ipam = {
        "type": "host-local",
        "ranges": [[{"subnet": node.subnet, "gateway": node.address}]],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dataDir": str(node.folder / "addresses"),
    }
    bridge = {
        "type": "bridge",
        "bridge": node.bridge,
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,  # A pod may reach itself through its service.
        "ipam": ipam,
    }
    return {"cniVersion": "0.4.0", "name": node.network, "plugins": [bridge]}


def kubelet_config(layout: Layout, node: Node) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": node.address,
        "healthzBindAddress": node.loopback,
        "readOnlyPort": 0,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(layout.certificates / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{node.cgroup}",
        "failSwapOn": False,
        **({"failCgroupV1": False} if layout.release.judges_cgroups else {}),
        "oomScoreAdj": 0,
        "clusterDNS": [CONTROL_ADDRESS],
        "clusterDomain": CLUSTER_DOMAIN,
        "resolvConf": str(layout.resolv_conf),
        "syncFrequency": SYNC,
        "nodeStatusUpdateFrequency": STATUS_UPDATE,
        "nodeLeaseDurationSeconds": LEASE_SECONDS,
        "volumePluginDir": str(node.folder / "volume-plugins"),
        "serializeImagePulls": False,
        # A developer's disk is often nearly full; pods and images should not be evicted for that.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "1%",
            "nodefs.inodesFree": "1%",
            "imagefs.available": "1%",
        },
    }


def _daemon(
    layout: Layout,
    node: Node,
    name: str,
    argv: tuple[str, ...],
    *,
    env: Mapping[str, str] | None = None,
) -> Daemon:
    return Daemon(
        name=f"{node.name}/{name}",
        argv=argv,
        pid_file=layout.processes / f"{node.name}.{name}",
        log=layout.logs / f"{node.name}.{name}.log",
        env=env or {},
    )
