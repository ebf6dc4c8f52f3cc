"""All keys, certificates and kubeconfigs of a cluster.

They are created in a folder beside the final one, which is renamed when complete: a cluster has all
of them or none. Nodes are added later and get theirs one by one, signed by the same authority.
"""

import base64
import secrets
import shutil
from pathlib import Path
from typing import Any

from devcluster.certificates import Authority, Pair, key_pair
from devcluster.files import write, write_yaml
from devcluster.layout import (
    API_SERVICE_ADDRESS,
    API_URL,
    CLUSTER_DOMAIN,
    CONTROL_ADDRESS,
    Layout,
    Node,
)

MASTERS = "system:masters"

# The users that Kubernetes' default roles are bound to. The DNS watcher uses the name of the
# service account that a cluster's DNS usually has.
COMPONENT_USERS = {
    "controller-manager": "system:kube-controller-manager",
    "scheduler": "system:kube-scheduler",
    "proxy": "system:kube-proxy",
    "dns": "system:serviceaccount:kube-system:kube-dns",
}


def ensure_credentials(layout: Layout) -> None:
    """Create all credentials except the nodes', once."""
    if not layout.certificates.is_dir():
        new = layout.certificates.with_name("pki.new")
        shutil.rmtree(new, ignore_errors=True)
        _make(new)
        new.rename(layout.certificates)
    authority = (layout.certificates / "ca.crt").read_bytes()
    token = (layout.certificates / "admin.token").read_text()
    write_yaml(layout.kubeconfig, kubeconfig(authority, {"token": token}))


def ensure_node_credentials(layout: Layout, node: Node) -> None:
    """Create a kubeconfig with which a kubelet can act only as its node."""
    if node.kubeconfig.exists():
        return
    folder = layout.certificates
    authority = Authority(Pair((folder / "ca.crt").read_bytes(), (folder / "ca.key").read_bytes()))
    pair = authority.client(f"system:node:{node.name}", group="system:nodes")
    write_yaml(node.kubeconfig, kubeconfig(authority.pair.certificate, _embedded(pair)))


def kubeconfig(authority: bytes, user: dict[str, str]) -> dict[str, Any]:
    """A kubeconfig for one user of this cluster."""
    cluster = {"server": API_URL, "certificate-authority-data": _base64(authority)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "resile", "cluster": cluster}],
        "users": [{"name": "resile", "user": user}],
        "contexts": [{"name": "resile", "context": {"cluster": "resile", "user": "resile"}}],
        "current-context": "resile",
    }


def _make(folder: Path) -> None:
    authority = Authority.create()
    _write_pair(folder / "ca", authority.pair)
    hosts = ["kubernetes", "kubernetes.default", "kubernetes.default.svc"]
    hosts.append(f"kubernetes.default.svc.{CLUSTER_DOMAIN}")
    addresses = [CONTROL_ADDRESS, API_SERVICE_ADDRESS]
    _write_pair(
        folder / "apiserver",
        authority.server("kube-apiserver", hosts=hosts, addresses=addresses),
    )
    _write_pair(folder / "kubelet-client", authority.client("kube-apiserver", group=MASTERS))
    private, public = key_pair()
    write(folder / "service-account.key", private)
    write(folder / "service-account.pub", public)
    token = secrets.token_hex(16)
    write(folder / "admin.token", token)
    write(folder / "tokens.csv", f'{token},admin,admin,"{MASTERS}"\n')
    for name, user in COMPONENT_USERS.items():
        document = kubeconfig(authority.pair.certificate, _embedded(authority.client(user)))
        write_yaml(folder / f"{name}.kubeconfig", document)


def _embedded(pair: Pair) -> dict[str, str]:
    return {
        "client-certificate-data": _base64(pair.certificate),
        "client-key-data": _base64(pair.key),
    }


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _write_pair(stem: Path, pair: Pair) -> None:
    write(stem.with_suffix(".crt"), pair.certificate)
    write(stem.with_suffix(".key"), pair.key)
