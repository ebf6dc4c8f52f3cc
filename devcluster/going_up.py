"""From nothing, or from whatever is left, to a cluster with all nodes Ready.

Every step makes what is missing and leaves alone what is there, so the same way leads up from an
empty machine, from a cluster that lost processes, and from an `up` that was killed halfway.
"""

from collections.abc import Mapping
from datetime import datetime, timezone

from devcluster import control_plane, node_life
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
from devcluster.waiting import holds_within

# Six seconds on a quiet machine with two cores; a busy one may need ten times as long.
_API_WITHIN = 90.0
_NODES_WITHIN = 180.0

_LONG_AGO = datetime.min.replace(tzinfo=timezone.utc)


def bring_up(layout: Layout, *, nodes: int, progress: Progress) -> None:
    """Bring up a cluster with at least this many nodes; all are Ready when this returns."""
    ensure_machine(progress)
    ensure_binaries(layout, progress=progress)
    ensure_pause_image(layout)
    before = len(layout.nodes())
    members = [layout.node(index) for index in range(1, max(nodes, before) + 1)]
    _prepare(layout)
    started = start_all(control_plane.foundation(layout))
    for node in members:  # While the API server is still at it.
        started += node_life.start_runtime(layout, node)
    if started:
        progress.reached(f"started {_names(started)}")
    wait_for_api(layout)
    progress.reached("API server is ready")
    started = start_all(control_plane.clients(layout))
    due = {node.name: _LONG_AGO for node in members}
    for node in members:
        moment = datetime.now(timezone.utc).replace(microsecond=0)  # As exact as the API is.
        if kubelet := node_life.start_kubelet(layout, node):
            started += kubelet
            due[node.name] = moment
    if started:
        progress.reached(f"started {_names(started)}")
    wait_for_nodes(layout, due)
    progress.reached(f"{_count(members)} Ready: {', '.join(node.name for node in members)}")


def ensure_machine(progress: Progress) -> None:
    """Check the machine and install what it lacks to run the cluster."""
    check_machine()
    if packages := missing(TO_RUN):
        progress.reached(f"installing with apt-get: {' '.join(packages)}")
        install(packages)


def wait_for_api(layout: Layout) -> None:
    """Until the API server says that it is ready."""
    needed = [control_plane.etcd(layout), control_plane.apiserver(layout)]
    api = Api(layout.kubeconfig)

    def ready() -> bool:
        for daemon in needed:
            daemon.require()
        return api.is_ready()

    if not holds_within(_API_WITHIN, ready):
        raise DaemonFailed("apiserver", problem="does not get ready", log=needed[1].log)


def wait_for_nodes(layout: Layout, due: Mapping[str, datetime]) -> None:
    """Until every node was heard to be Ready at the given time or later, and pods can be created.

    What was heard earlier may be the word of a kubelet that is dead.
    """
    api = Api(layout.kubeconfig)
    needed = [
        *control_plane.clients(layout),
        *(one for node in layout.nodes() for one in node_life.daemons(layout, node)),
    ]

    def late() -> list[str]:
        heard = api.ready_nodes()
        return [name for name in due if name not in heard or heard[name] < due[name]]

    def ready() -> bool:
        for daemon in needed:
            daemon.require()
        account = api.get("/api/v1/namespaces/default/serviceaccounts/default")
        return bool(account and account.get("secrets")) and not late()

    if not holds_within(_NODES_WITHIN, ready, pause=0.3):
        raise ClusterError(f"not Ready after {_NODES_WITHIN:g} s: {late()}; logs: {layout.logs}")


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


def _names(daemons: list[Daemon]) -> str:
    return ", ".join(daemon.name for daemon in daemons)


def _count(members: list[Node]) -> str:
    return "1 node is" if len(members) == 1 else f"{len(members)} nodes are"
