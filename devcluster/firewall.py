"""The packet filter: adds one rule, and removes the rules that Kubernetes leaves behind.

kube-proxy and the kubelets create chains named KUBE-... and never remove all of them, not even with
`--cleanup`. The rules to remove are read from `iptables-save` and passed to `iptables-restore` as
one transaction for each table.
"""

import shutil
from collections.abc import Sequence

from devcluster.commands import PATH, run
from devcluster.errors import CommandFailed
from devcluster.layout import CLUSTER_NETWORK

# A machine with Docker drops forwarded packets unless a rule says otherwise.
_RULE = (
    *("-s", CLUSTER_NETWORK, "-d", CLUSTER_NETWORK),
    *("-m", "comment", "--comment", "resile-cluster", "-j", "ACCEPT"),
)


def ensure_forwarding() -> None:
    """Allow packets between the bridges."""
    try:
        run("iptables", "--wait", "-C", "FORWARD", *_RULE)
    except CommandFailed:
        run("iptables", "--wait", "-I", "FORWARD", *_RULE)


def clean_firewall() -> None:
    """Remove every rule and chain of the cluster, for both versions of IP."""
    for program in ("iptables", "ip6tables"):
        if shutil.which(f"{program}-save", path=PATH):
            script = removal(run(f"{program}-save"))
            if script:
                run(f"{program}-restore", "--noflush", "--wait", stdin=script)


def removal(saved: str) -> str:
    """Turn the output of iptables-save into an input of iptables-restore; empty if not needed."""
    tables: dict[str, tuple[list[str], list[str]]] = {}
    chains: list[str] = []
    rules: list[str] = []
    for line in saved.splitlines():
        if line.startswith("*"):
            chains, rules = tables.setdefault(line, ([], []))
        elif line.startswith(":KUBE-"):
            chains.append(line[1:].split()[0])
        elif line.startswith("-A ") and not line.startswith("-A KUBE-") and _is_ours(line):
            rules.append(line)
    return "".join(_script(table, *found) for table, found in tables.items() if any(found))


def _is_ours(rule: str) -> bool:
    return " -j KUBE-" in rule or "--comment resile-cluster " in rule


def _script(table: str, chains: Sequence[str], rules: Sequence[str]) -> str:
    lines = [
        table,
        *(rule.replace("-A ", "-D ", 1) for rule in rules),
        *(f"-F {chain}" for chain in chains),  # Flush all first: they jump to each other.
        *(f"-X {chain}" for chain in chains),
        "COMMIT",
    ]
    return "\n".join(lines) + "\n"
