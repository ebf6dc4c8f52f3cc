"""The addresses of a job's nodes, by which each node finds the nodes of all roles.

An address belongs to a rank, not to a node, so a replacement has the address of its predecessor.
All ranks that should exist now are listed, including those without a node at the moment. The JSON
document is the same on both platforms::

    {"version": 1, "job": "ctr",
     "roles": {"ps": [{"rank": 0, "host": "127.0.0.1", "ports": {"rpc": 7000}}], "worker": [...]}}

A node finds it in its environment as of its start, there with ``"node": {"role": "worker",
"rank": 2}`` for the node itself; in a file that is replaced atomically on every change; and at the
job's master. Jobs in which no role has ports have none of this.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from resile.decoding import decode_json
from resile.job.naming import hostname, nodes_service_name
from resile.job.node import LIVE, NodePhase
from resile.job.spec.job import ElasticJob, JobSpec
from resile.job.status import JobStatus

__all__ = [
    "ADDRESSES_FILE_VARIABLE",
    "ADDRESSES_VARIABLE",
    "HOST_VARIABLE",
    "LARGEST_IN_ENVIRONMENT",
    "LARGEST_PUBLISHED",
    "LOOPBACK",
    "PORT_PREFIX",
    "Addresses",
    "NodeAddress",
    "NodeSlot",
    "address_variables",
    "can_be_published",
    "cluster_addresses",
    "decode_addresses",
    "encode_addresses",
    "has_addresses",
    "local_addresses",
    "ranks_to_list",
]

ADDRESSES_VARIABLE = "RESILE_ADDRESSES"
ADDRESSES_FILE_VARIABLE = "RESILE_ADDRESSES_FILE"
HOST_VARIABLE = "RESILE_HOST"
PORT_PREFIX = "RESILE_PORT_"

LOOPBACK = "127.0.0.1"

LARGEST_IN_ENVIRONMENT = 32 * 1024
"""Bytes of a variable. Linux allows 128 KiB, but on a cluster each pod's object holds a copy.
Larger addresses are only in the file, and up to LARGEST_PUBLISHED at the master."""

LARGEST_PUBLISHED = 512 * 1024
"""Bytes of addresses sent to a master: a request has at most 1 MiB, and carries other data too."""

_AT_WORK = LIVE | {NodePhase.WAITING}


class NodeAddress(msgspec.Struct, frozen=True, kw_only=True):
    """The address of one rank of a role."""

    rank: int
    host: str
    """A name that every node of the job can resolve, or an IP address."""

    ports: dict[str, int] = msgspec.field(default_factory=dict)
    """Port numbers by name, as the role defines them."""


class NodeSlot(msgspec.Struct, frozen=True, kw_only=True):
    """The role and rank of a node."""

    role: str
    rank: int


class Addresses(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The addresses of all nodes of a job.

    The version changes only when an older reader would misread it; fields may be added.
    """

    version: Literal[1]
    job: str
    roles: dict[str, tuple[NodeAddress, ...]]
    """The ranks of each role in order. One may be missing, for example because it is done."""

    node: NodeSlot | None = None
    """The node that this copy is for; None in the copy that all nodes share."""

    def of(self, role: str) -> tuple[NodeAddress, ...]:
        """The nodes of a role, by rank; empty for a role that the job does not have."""
        return self.roles.get(role, ())

    def find(self, role: str, rank: int) -> NodeAddress | None:
        """The address of one rank; None if there is no such rank now."""
        return next((one for one in self.of(role) if one.rank == rank), None)

    @property
    def own(self) -> NodeAddress | None:
        """The address of the node that this copy is for."""
        return None if self.node is None else self.find(self.node.role, self.node.rank)


def encode_addresses(addresses: Addresses) -> bytes:
    """Encode as JSON."""
    return msgspec.json.encode(addresses)


def decode_addresses(data: bytes | str) -> Addresses:
    """Decode from JSON; raises DecodeError if it is invalid or of another version."""
    return decode_json(data, Addresses)


def can_be_published(addresses: Addresses) -> bool:
    """Whether they are short enough to be sent to a master."""
    return len(encode_addresses(addresses)) <= LARGEST_PUBLISHED


def has_addresses(spec: JobSpec) -> bool:
    """Whether the nodes of a job have addresses: if any role has ports."""
    return any(role.ports for role in spec.roles.values())


def ranks_to_list(job: ElasticJob, status: JobStatus) -> dict[str, tuple[int, ...]]:
    """The ranks of each role that should exist now: those that have a node or wait for one, and for
    a role that was not reconciled yet, as many as are wanted."""
    listed: dict[str, tuple[int, ...]] = {}
    for name, role in sorted(job.spec.roles.items()):
        if name in status.roles:
            ranks = (one for one in status.nodes if one.role == name and one.phase in _AT_WORK)
            listed[name] = tuple(sorted(one.rank for one in ranks))
        else:
            listed[name] = tuple(range(role.size.wanted))
    return listed


def cluster_addresses(job: ElasticJob, status: JobStatus) -> Addresses:
    """Addresses on a cluster: hostnames in the Service of the nodes, and the role's own ports."""
    return Addresses(
        version=1,
        job=job.metadata.name,
        roles={
            role: tuple(
                NodeAddress(
                    rank=rank,
                    host=_cluster_host(job, role, rank),
                    ports=dict(job.spec.roles[role].ports),
                )
                for rank in ranks
            )
            for role, ranks in ranks_to_list(job, status).items()
        },
    )


def _cluster_host(job: ElasticJob, role: str, rank: int) -> str:
    """The host of a rank. A hostname or subdomain in the template wins, as it does in pods."""
    template: Mapping[str, Any] = job.spec.roles[role].template.get("spec") or {}
    host = template.get("hostname") or hostname(job, role, rank)
    domain = template.get("subdomain") or nodes_service_name(job)
    return f"{host}.{domain}.{job.metadata.namespace}.svc"


def local_addresses(
    job: ElasticJob,
    ranks: Mapping[str, tuple[int, ...]],
    *,
    ports: Mapping[tuple[str, int], Mapping[str, int]],
) -> Addresses:
    """Addresses on one machine: the loopback address, with ports chosen for each rank."""
    return Addresses(
        version=1,
        job=job.metadata.name,
        roles={
            role: tuple(
                NodeAddress(rank=rank, host=LOOPBACK, ports=dict(ports.get((role, rank), {})))
                for rank in each
            )
            for role, each in ranks.items()
        },
    )


def address_variables(addresses: Addresses, place: NodeSlot, *, file: str) -> dict[str, str]:
    """The environment variables of a node. ``file``: where the addresses are kept up to date."""
    variables = {ADDRESSES_FILE_VARIABLE: file}
    encoded = encode_addresses(msgspec.structs.replace(addresses, node=place))
    if len(encoded) <= LARGEST_IN_ENVIRONMENT:
        variables[ADDRESSES_VARIABLE] = encoded.decode()
    own = addresses.find(place.role, place.rank)
    if own is not None:
        variables[HOST_VARIABLE] = own.host
        for name, number in own.ports.items():
            variables[PORT_PREFIX + name.upper().replace("-", "_")] = str(number)
    return variables
