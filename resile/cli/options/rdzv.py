"""torchrun's rendezvous flags: sizes and timeouts (--nnodes, --rdzv-conf), and the addresses of the
master and of the store.

With an elastic rendezvous the endpoint is the master's, and each round's store has a port of its
own. With a static one (``--master-addr``, ``--master-port``) the address belongs to the script: it
is its MASTER_ADDR and MASTER_PORT in every round, and the round's store listens there. The master
then listens at a port that every node derives from it in the same way.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click

from resile.job.elasticity import Elasticity, ElasticityError
from resile.job.limits import MAX_NODES
from resile.job.rendezvous_conf import RendezvousConf, elasticity_of, read_conf
from resile.wire.bounds import is_name
from resile.wire.endpoint import Endpoint, free_port, parse_endpoint


def parse_nnodes(text: str) -> tuple[int, int]:
    """Parse ``N`` or ``MIN:MAX``."""
    parts = text.split(":")
    if len(parts) > 2 or not all(re.fullmatch("[0-9]{1,9}", part) for part in parts):
        raise click.UsageError(f"--nnodes {text}: write N, or MIN:MAX such as 1:4")
    low, high = int(parts[0]), int(parts[-1])
    if high > MAX_NODES:
        raise click.UsageError(f"--nnodes {text}: a job has at most {MAX_NODES} nodes")
    if low < 1:
        raise click.UsageError(f"--nnodes {text}: a job needs at least 1 node")
    if low > high:
        raise click.UsageError(f"--nnodes {text}: MIN ({low}) is greater than MAX ({high})")
    return low, high


def parse_conf(text: str) -> RendezvousConf:
    """Parse ``key=value,key=value``, also in quotes: a launcher's list of arguments has no shell
    that would remove them."""
    pieces = filter(None, (piece.strip() for piece in _unquoted(text).split(",")))
    pairs = {key: value for key, _, value in (piece.partition("=") for piece in pieces)}
    try:
        return read_conf(pairs)
    except ElasticityError as error:
        raise click.UsageError(str(error)) from None


def _unquoted(text: str) -> str:
    bare = text.strip()
    for quote in "'\"":
        if len(bare) >= 2 and bare[0] == quote == bare[-1]:
            return bare[1:-1]
    return bare


def build_elasticity(
    nnodes: str, conf: RendezvousConf, *, max_restarts: int, node_unit: int | None = None
) -> Elasticity:
    """Return all flags combined, or raise a usage error that names what does not fit."""
    sizes = parse_nnodes(nnodes)
    try:
        return elasticity_of(conf, sizes, max_restarts=max_restarts, node_unit=node_unit)
    except ElasticityError as error:
        raise click.UsageError(str(error)) from None


log = logging.getLogger("resile.agent")

BACKENDS = ("resile", "c10d", "static")

STATIC_PORT = 29500
"""torchrun's --master-port if none is given."""

C10D_ENDPOINT = "localhost:29400"
"""The endpoint of torchrun's c10d backend if none is given."""

MASTER_OFFSET = 10_000
"""The offset from a static --master-port to the master's own port. Neighbouring ports would be
those of the next job on the same machine, and for 29500 the result is below the ports that the
kernel gives to outgoing connections."""

FIRST_USER_PORT = 1024


@dataclass(frozen=True)
class Place:
    """The job, the address of its master (running or not), and that of its store, if required."""

    endpoint: Endpoint
    run_id: str
    store: Endpoint | None = None
    """MASTER_ADDR and MASTER_PORT of every round, if the user chose them."""


def find_place(flags: Mapping[str, Any], *, max_nodes: int) -> Place:
    """Return where this node meets the others; a usage error if the flags do not name a place."""
    _check_backend(flags["rdzv_backend"])
    if flags["rdzv_id"]:
        one_line("--rdzv-id", flags["rdzv_id"])
    if flags["standalone"]:
        return _own_place(flags)
    static = _static_address(flags, max_nodes=max_nodes)
    if static is not None and static.port:
        master = Endpoint(static.host, master_port_beside(static.port))
        log.info("the master's port beside --master-port %d is %d", static.port, master.port)
        return Place(master, flags["rdzv_id"] or "none", static)
    endpoint = flags["rdzv_endpoint"]
    if not endpoint and flags["rdzv_backend"] == "c10d" and max_nodes > 1:
        endpoint = C10D_ENDPOINT
    if not endpoint:
        place = _own_place(flags)
        if max_nodes > 1:
            where = f"--rdzv-endpoint {place.endpoint} --rdzv-id {place.run_id}"
            log.info("no --rdzv-endpoint is given; others on this machine join with %s", where)
        return place
    given = parse_endpoint(endpoint)
    # Port 0 means, as for torchrun: any free port of this machine.
    port = given.port or free_port(given.host)
    return Place(Endpoint(given.host, port), flags["rdzv_id"] or "none")


def master_port_beside(port: int) -> int:
    """Return the master's port for a job whose script has ``port``; the same on every node."""
    below = port - MASTER_OFFSET
    return below if below >= FIRST_USER_PORT else port + MASTER_OFFSET


def one_line(source: str, name: str) -> str:
    """Return a name that fits into messages, or raise a usage error that names its source."""
    if not is_name(name):
        raise click.UsageError(f"{source}: must be one line of 1 to 255 characters")
    return name


def _own_place(flags: Mapping[str, Any]) -> Place:
    return Place(Endpoint("127.0.0.1", free_port()), flags["rdzv_id"] or uuid.uuid4().hex)


def _check_backend(backend: str | None) -> None:
    if backend is not None and backend not in BACKENDS:
        raise click.UsageError(
            f"--rdzv-backend {backend}: a Resile job meets at its own master; "
            f"write one of {', '.join(BACKENDS)}, with the master's address as --rdzv-endpoint"
        )


def _static_address(flags: Mapping[str, Any], *, max_nodes: int) -> Endpoint | None:
    """Return the script's own address, if the flags ask for a static rendezvous."""
    named = flags["master_addr"] is not None or flags["master_port"] is not None
    if flags["rdzv_endpoint"]:
        if named:
            log.warning("--master-addr and --master-port are ignored: --rdzv-endpoint is given")
        is_static = flags["rdzv_backend"] == "static"
        return parse_endpoint(flags["rdzv_endpoint"]) if is_static else None
    numbered = flags["node_rank"] is not None and flags["rdzv_backend"] != "c10d"
    if not named and not (max_nodes > 1 and (numbered or flags["rdzv_backend"] == "static")):
        return None
    host = (flags["master_addr"] or "127.0.0.1").removeprefix("[").removesuffix("]")
    port = flags["master_port"]
    return Endpoint(host, STATIC_PORT if port is None else port)
