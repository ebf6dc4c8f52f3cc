"""The addresses of a job's nodes: how each finds the others of all roles, now and when they change.

An address belongs to a rank and not to a node, so a replacement is found where its predecessor was.
All ranks that are to exist now are listed, also those that have no node at the moment. One JSON
document on both platforms::

    {"version": 1, "job": "ctr",
     "roles": {"ps": [{"rank": 0, "host": "127.0.0.1", "ports": {"rpc": 7000}}], "worker": [...]}}

It is in a node's environment as it was when the node was started, there with ``"node": {"role":
"worker", "rank": 2}`` for the node itself; in a file that is replaced whenever it changes; and at
the job's master. Jobs in which no role has ports have none of this.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from resile.decoding import decode_json
from resile.job.naming import hostname, nodes_service_name
from resile.job.node import LIVE, NodePhase
from resile.job.spec import ElasticJob, JobSpec
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
    "Place",
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
"""Bytes of a variable. Linux takes 128 KiB, and on a cluster each pod's object holds them: those of
a larger job are in the file alone, and up to LARGEST_PUBLISHED at the master."""

LARGEST_PUBLISHED = 512 * 1024
"""Bytes of addresses that a master is told: a request has at most 1 MiB, and says other things."""

_AT_WORK = LIVE | {NodePhase.WAITING}


class NodeAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Where one rank of a role is found."""

    rank: int
    host: str
    """A name that every node of the job can resolve, or an IP address."""

    ports: dict[str, int] = msgspec.field(default_factory=dict)
    """Port numbers by the names that the role gives them."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Which node of a job somebody is."""

    role: str
    rank: int


class Addresses(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The addresses of all nodes of a job.

    The version changes only when an older reader would misread it; fields may be added to it.
    """

    version: Literal[1]
    job: str
    roles: dict[str, tuple[NodeAddress, ...]]
    """The ranks of each role in order. One may be missing: its work is done, for instance."""

    node: Place | None = None
    """The node that this was told to; None in what all nodes share."""

    def of(self, role: str) -> tuple[NodeAddress, ...]:
        """The nodes of a role, by rank; none for a role that the job does not have."""
        return self.roles.get(role, ())

    def find(self, role: str, rank: int) -> NodeAddress | None:
        """The address of one rank; None if there is no such rank now."""
        return next((one for one in self.of(role) if one.rank == rank), None)

    @property
    def own(self) -> NodeAddress | None:
        """The address of the node that this was told to."""
        return None if self.node is None else self.find(self.node.role, self.node.rank)


def encode_addresses(addresses: Addresses) -> bytes:
    """As JSON."""
    return msgspec.json.encode(addresses)


def decode_addresses(data: bytes | str) -> Addresses:
    """From JSON; raises DecodeError for what is none, or of another version."""
    return decode_json(data, Addresses)


def can_be_published(addresses: Addresses) -> bool:
    """Whether they are short enough to be told to a master."""
    return len(encode_addresses(addresses)) <= LARGEST_PUBLISHED


def has_addresses(spec: JobSpec) -> bool:
    """Whether the nodes of a job are told each other's addresses."""
    return any(role.ports for role in spec.roles.values())


def ranks_to_list(job: ElasticJob, status: JobStatus) -> dict[str, tuple[int, ...]]:
    """The ranks of each role that are to exist now: those that have a node or wait for one, and of
    a role that nobody has looked at yet as many as are wanted."""
    listed: dict[str, tuple[int, ...]] = {}
    for name, role in sorted(job.spec.roles.items()):
        if name in status.roles:
            ranks = (one for one in status.nodes if one.role == name and one.phase in _AT_WORK)
            listed[name] = tuple(sorted(one.rank for one in ranks))
        else:
            listed[name] = tuple(range(role.size.wanted))
    return listed


def cluster_addresses(job: ElasticJob, status: JobStatus) -> Addresses:
    """On a cluster: hostnames in the service of the job's nodes, and the role's own ports."""
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
    """A hostname or subdomain in the role's template wins, as it does in its pods."""
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
    """On one machine: the loopback address, and ports that were chosen for each role and rank."""
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


def address_variables(addresses: Addresses, place: Place, *, file: str) -> dict[str, str]:
    """What a node finds in its environment. ``file``: where the addresses are kept up to date."""
    variables = {ADDRESSES_FILE_VARIABLE: file}
    told = encode_addresses(msgspec.structs.replace(addresses, node=place))
    if len(told) <= LARGEST_IN_ENVIRONMENT:
        variables[ADDRESSES_VARIABLE] = told.decode()
    own = addresses.find(place.role, place.rank)
    if own is not None:
        variables[HOST_VARIABLE] = own.host
        for name, number in own.ports.items():
            variables[PORT_PREFIX + name.upper().replace("-", "_")] = str(number)
    return variables
