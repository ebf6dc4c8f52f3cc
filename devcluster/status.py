"""The state of the cluster as a table: its processes, its nodes and the API server."""

from rich.console import Console
from rich.table import Table

from devcluster.api import Api
from devcluster.cluster import Cluster


def show(cluster: Cluster, console: Console) -> bool:
    """Print the state; return whether all processes are up and all nodes Ready."""
    processes = {daemon.name: daemon.identity() for daemon in cluster.daemons()}
    answers = Api(cluster.kubeconfig).is_ready()
    ready = cluster.ready_nodes()
    table = Table("PROCESS", "PID", "STATE", box=None, pad_edge=False)
    for name, found in processes.items():
        table.add_row(
            name, str(found.pid) if found else "-", _word(found is not None, "up", "down")
        )
    console.print(table)
    console.print()
    table = Table("NODE", "STATE", box=None, pad_edge=False)
    for name in cluster.nodes:
        table.add_row(name, _word(name in ready, "Ready", "NotReady"))
    console.print(table)
    console.print()
    console.print(f"API server: {_word(answers, 'ready', 'does not answer')}")
    console.print(f"kubeconfig: {cluster.kubeconfig}", soft_wrap=True)
    return answers and all(processes.values()) and ready >= set(cluster.nodes)


def _word(good: bool, yes: str, no: str) -> str:
    return f"[green]{yes}[/]" if good else f"[bold red]{no}[/]"
