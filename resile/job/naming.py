"""The names of a job's nodes and of the objects created for them, from its manifest's patterns."""

from __future__ import annotations

import re

from resile.job.node import Node
from resile.job.spec.job import ElasticJob
from resile.job.spec.names import fill

__all__ = [
    "addresses_map_name",
    "hostname",
    "master_pod_name",
    "master_serial",
    "master_service_name",
    "node_name",
    "nodes_service_name",
    "pod_names",
    "rank_service_name",
    "role_in",
    "serial_of",
    "token_secret_name",
]

_LONGEST_SERIAL = 15
"""Digits. A pod that somebody else created may have any name."""


def node_name(job: ElasticJob, role: str, *, rank: int, serial: int) -> str:
    """The name of a node; ``serial`` counts the nodes of its role from 0."""
    return fill(job.spec.names.node, job=job.metadata.name, role=role, rank=rank, serial=serial)


def serial_of(job: ElasticJob, node: Node) -> int | None:
    """The serial number in a node's name; None if the name has none or is not one of ours."""
    pattern = fill(job.spec.names.node, job=job.metadata.name, role=node.role, rank=node.rank)
    return _serial_in(node.name, pattern)


def _serial_in(name: str, pattern: str) -> int | None:
    before, placeholder, after = pattern.partition("{serial}")
    if not placeholder:
        return None
    number = f"[0-9]{{1,{_LONGEST_SERIAL}}}"
    found = re.fullmatch(f"{re.escape(before)}({number}){re.escape(after)}", name)
    return None if found is None else int(found[1])


def hostname(job: ElasticJob, role: str, rank: int) -> str:
    """The hostname of a rank, shared by all nodes that ever hold it."""
    return fill(job.spec.names.hostname, job=job.metadata.name, role=role, rank=rank)


def master_pod_name(job: ElasticJob, *, serial: int) -> str:
    """The ``serial``-th pod of the master."""
    return fill(_master_pattern(job), serial=serial)


def master_serial(job: ElasticJob, name: str) -> int:
    """The serial number in the name of a master's pod; 0 if it is not one of our names."""
    return _serial_in(name, _master_pattern(job)) or 0


def _master_pattern(job: ElasticJob) -> str:
    """The pattern of the master's pods. A role named master keeps that word for its own nodes."""
    word = "coordinator" if "master" in job.spec.roles else "master"
    return fill(job.spec.names.master or f"{{job}}-{word}-{{serial}}", job=job.metadata.name)


def master_service_name(job: ElasticJob) -> str:
    """The Service through which agents find the master, whichever pod it is in."""
    return fill(job.spec.names.master_service, job=job.metadata.name)


def nodes_service_name(job: ElasticJob) -> str:
    """The headless Service that gives each node its hostname in the cluster's DNS."""
    return fill(job.spec.names.nodes_service, job=job.metadata.name)


def rank_service_name(job: ElasticJob, role: str, rank: int) -> str | None:
    """The Service of one rank; None if the manifest does not ask for one."""
    pattern = job.spec.names.rank_service
    return None if pattern is None else fill(pattern, job=job.metadata.name, role=role, rank=rank)


def addresses_map_name(job: ElasticJob) -> str:
    """The ConfigMap with the addresses of the job's nodes."""
    return f"{job.metadata.name}-addresses"


def pod_names(job: ElasticJob) -> re.Pattern[str]:
    """A pattern that matches the name of every pod the job's nodes and masters may have had."""
    nodes = [_node_pattern(job, role) for role in job.spec.roles]
    return re.compile("|".join(_expression(name) for name in (*nodes, _master_pattern(job))))


def role_in(job: ElasticJob, name: str) -> str:
    """The role of the node with this name; empty if it is not one of ours."""
    for role in job.spec.roles:
        if re.fullmatch(_expression(_node_pattern(job, role)), name):
            return role
    return ""


def _node_pattern(job: ElasticJob, role: str) -> str:
    return fill(job.spec.names.node, job=job.metadata.name, role=role)


def _expression(pattern: str) -> str:
    """A regular expression for the names that a pattern gives."""
    return _NUMBER.sub("[0-9]+", re.escape(pattern))


_NUMBER = re.compile(r"\\\{(?:rank|serial)\\\}")
"""A number's placeholder in a pattern that is escaped for a regular expression."""


def token_secret_name(job: ElasticJob) -> str:
    """The Secret that holds the job's token."""
    return fill(job.spec.names.token, job=job.metadata.name)
