"""The cluster's API for tests: find it, stop parts of it, start them again."""

from dataclasses import dataclass
from pathlib import Path

from devcluster import control_plane, node_life
from devcluster.api import Api
from devcluster.daemons import Daemon, start_all, stop_all
from devcluster.errors import NotFound
from devcluster.going_down import take_down
from devcluster.going_up import bring_up, wait_for_api
from devcluster.layout import Layout, Node
from devcluster.lock import exclusive
from devcluster.progress import Progress


@dataclass(frozen=True)
class Cluster:
    """A cluster that has been brought up. Its parts may be down; that is what `stop` is for."""

    layout: Layout

    @classmethod
    def find(cls) -> "Cluster":
        """Return the cluster of this user; NotFound if there is none."""
        layout = Layout.default()
        if not layout.kubeconfig.exists():
            raise NotFound("there is no cluster; `make cluster` brings one up")
        return cls(layout)

    @classmethod
    def up(
        cls, *, nodes: int = 2, binaries: Path | None = None, progress: Progress | None = None
    ) -> "Cluster":
        """Return the cluster with at least this many nodes, brought up or repaired if necessary.

        ``binaries`` is a folder with Kubernetes' binaries; by default the ones that the cluster
        runs already are used, or for a new cluster the ones built here.
        """
        layout = Layout.default()
        progress = progress or Progress()
        with exclusive(
            layout.lock, waiting=lambda: progress.reached("waiting for another command")
        ):
            bring_up(layout, count=nodes, binaries=binaries, progress=progress)
        return cls(layout)

    @staticmethod
    def down(*, progress: Progress | None = None) -> None:
        """Remove the cluster, whatever is left of it."""
        layout = Layout.default()
        progress = progress or Progress()
        with exclusive(
            layout.lock, waiting=lambda: progress.reached("waiting for another command")
        ):
            take_down(layout, progress=progress)

    @property
    def kubeconfig(self) -> Path:
        """The admin's kubeconfig."""
        return self.layout.kubeconfig

    @property
    def nodes(self) -> list[str]:
        return [node.name for node in self.layout.nodes()]

    def daemons(self) -> list[Daemon]:
        """All processes of the cluster."""
        shared = [*control_plane.foundation(self.layout), *control_plane.clients(self.layout)]
        members = self.layout.nodes()
        return [*shared, *(one for node in members for one in node_life.daemons(self.layout, node))]

    def ready_nodes(self) -> set[str]:
        """The nodes that the API server shows as Ready; empty if it is unavailable."""
        return set(Api(self.kubeconfig).ready_nodes())

    def stop(self, name: str) -> None:
        """Kill one component, such as `apiserver` or `node-a/kubelet`; it is not restarted."""
        with exclusive(self.layout.lock):
            stop_all([self._daemon(name)])

    def start(self, name: str) -> None:
        """Start a component again; the API server is ready when this returns."""
        daemon = self._daemon(name)
        with exclusive(self.layout.lock):
            start_all([daemon])
            if name == "apiserver":
                wait_for_api(self.layout)

    def stop_node(self, name: str) -> None:
        """Simulate the loss of a node: kill all its processes, including its containers."""
        node = self._node(name)
        with exclusive(self.layout.lock):
            node_life.lose(self.layout, node)

    def start_node(self, name: str) -> None:
        """Start a lost node again; it is Ready some seconds after this returns."""
        node = self._node(name)
        with exclusive(self.layout.lock):
            node_life.start_runtime(self.layout, node)
            node_life.start_kubelet(self.layout, node)

    def _daemon(self, name: str) -> Daemon:
        every = {daemon.name: daemon for daemon in self.daemons()}
        if name not in every:
            raise NotFound(f"no component {name!r}; there are {', '.join(every)}")
        return every[name]

    def _node(self, name: str) -> Node:
        every = {node.name: node for node in self.layout.nodes()}
        if name not in every:
            raise NotFound(f"no node {name!r}; there are {', '.join(every)}")
        return every[name]
