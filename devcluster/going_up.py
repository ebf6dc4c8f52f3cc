"""Bring up a cluster with all nodes Ready, from nothing or from the remains of one.

Every step creates only what is missing, so the same steps work on an empty machine, for a cluster
that lost processes, and after an `up` that was killed halfway.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from devcluster import control_plane, node_life, nodes
from devcluster.api import Api
from devcluster.build import ensure_binaries
from devcluster.credentials import ensure_credentials
from devcluster.daemons import Daemon, start_all
from devcluster.errors import ClusterError, DaemonFailed
from devcluster.files import write, write_yaml
from devcluster.firewall import ensure_forwarding
from devcluster.kernel import prepare_kernel
from devcluster.layout import CONTROL_ADDRESS, REGISTRY_ADDRESS, Layout, Node
from devcluster.machine import check_machine
from devcluster.network import ensure_control_bridge
from devcluster.packages import TO_RUN, install, missing
from devcluster.pause import ensure_pause_image
from devcluster.progress import Progress
from devcluster.release import Release, release_in, remember
from devcluster.waiting import holds_within

# Six seconds on a quiet machine with two cores; a busy one may need ten times as long.
_API_WITHIN = 90.0
_NODES_WITHIN = 180.0


def bring_up(
    layout: Layout, *, count: int, progress: Progress, binaries: Path | None = None
) -> None:
    """Bring up a cluster with at least `count` nodes; all are Ready when this returns."""
    ensure_machine(progress)
    _choose_release(layout, binaries, progress=progress)
    ensure_pause_image(layout)
    _prepare(layout)
    members = [layout.node(index + 1) for index in range(max(count, len(layout.nodes())))]
    first = start_all(control_plane.foundation(layout))
    for node in members:  # While the API server is still starting.
        first += node_life.start_runtime(layout, node)
    _tell_started(first, progress)
    wait_for_api(layout)
    progress.reached("API server is ready")
    then = start_all(control_plane.clients(layout))
    for node in members:
        then += node_life.start_kubelet(layout, node)
    _tell_started(then, progress)
    wait_for_nodes(layout, members)
    progress.reached(f"nodes are Ready: {', '.join(node.name for node in members)}")
    if not first + then:
        progress.reached("everything was running already")


def ensure_machine(progress: Progress) -> None:
    """Check the machine and install the packages it lacks to run the cluster."""
    check_machine()
    if packages := missing(TO_RUN):
        progress.reached(f"installing with apt-get: {' '.join(packages)}")
        install(packages)


def wait_for_api(layout: Layout) -> None:
    """Wait until the API server reports that it is ready."""
    needed = [control_plane.etcd(layout), control_plane.apiserver(layout)]
    api = Api(layout.kubeconfig)

    def ready() -> bool:
        for daemon in needed:
            daemon.require()
        return api.is_ready()

    if not holds_within(_API_WITHIN, ready):
        raise DaemonFailed("apiserver", problem="does not get ready", log=needed[1].log)


def wait_for_nodes(layout: Layout, members: Sequence[Node]) -> None:
    """Wait until all nodes are Ready and pods can be created.

    A heartbeat from before the start of a node's current kubelet does not count.
    """
    api = Api(layout.kubeconfig)
    kubelets = {node.name: nodes.kubelet(layout, node) for node in members}
    others = [*control_plane.clients(layout), *(nodes.containerd(layout, one) for one in members)]

    def late() -> list[str]:
        heard = api.ready_nodes()
        began = {name: daemon.require().started_at() for name, daemon in kubelets.items()}
        return [name for name in kubelets if name not in heard or heard[name] < began[name]]

    def ready() -> bool:
        for daemon in others:
            daemon.require()
        account = api.get("/api/v1/namespaces/default/serviceaccounts/default")
        return pods_can_use(account, release=layout.release) and not late()

    if not holds_within(_NODES_WITHIN, ready, pause=0.3):
        raise ClusterError(f"not Ready after {_NODES_WITHIN:g} s: {late()}; logs: {layout.logs}")


def pods_can_use(account: dict[str, Any] | None, *, release: Release) -> bool:
    """Whether a service account is complete: a pod with an incomplete one is rejected."""
    if account is None:
        return False
    return bool(account.get("secrets")) or not release.makes_account_secrets


def _choose_release(layout: Layout, binaries: Path | None, *, progress: Progress) -> None:
    """Choose the Kubernetes to run: the given one, else the cluster's, else the one built here."""
    release = release_in(binaries) if binaries else layout.release
    if release == layout.built:
        ensure_binaries(layout, progress=progress)
    remember(release, layout.release_note)


def _prepare(layout: Layout) -> None:
    prepare_kernel(layout.kernel_settings)
    ensure_control_bridge()
    ensure_forwarding()
    ensure_credentials(layout)
    write(layout.resolv_conf, f"nameserver {CONTROL_ADDRESS}\n")
    if not layout.hosts.exists():
        write(layout.hosts, "")
    storage = {"filesystem": {"rootdirectory": str(layout.registry)}, "delete": {"enabled": True}}
    http = {"addr": REGISTRY_ADDRESS}
    write_yaml(layout.registry_config, {"version": "0.1", "storage": storage, "http": http})


def _tell_started(daemons: Sequence[Daemon], progress: Progress) -> None:
    if daemons:
        progress.reached(f"started {', '.join(daemon.name for daemon in daemons)}")
