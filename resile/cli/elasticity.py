"""Parse torchrun's notation of sizes and timeouts (--nnodes, --rdzv-conf) into an Elasticity."""

from __future__ import annotations

import re

import click

from resile.job.elasticity import Elasticity, ElasticityError
from resile.job.limits import MOST_NODES
from resile.job.rendezvous_conf import RendezvousConf, elasticity_of, read_conf


def parse_nnodes(text: str) -> tuple[int, int]:
    """``N`` or ``MIN:MAX``."""
    parts = text.split(":")
    if len(parts) > 2 or not all(re.fullmatch("[0-9]{1,9}", part) for part in parts):
        raise click.UsageError(f"--nnodes {text}: write N, or MIN:MAX such as 1:4")
    low, high = int(parts[0]), int(parts[-1])
    if high > MOST_NODES:
        raise click.UsageError(f"--nnodes {text}: a job has at most {MOST_NODES} nodes")
    if low < 1:
        raise click.UsageError(f"--nnodes {text}: a job needs at least 1 node")
    if low > high:
        raise click.UsageError(f"--nnodes {text}: MIN ({low}) is greater than MAX ({high})")
    return low, high


def parse_conf(text: str) -> RendezvousConf:
    """``key=value,key=value``, also in quotes: a launcher's list of arguments has no shell that
    would take them away."""
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
    """All flags together, or a usage error that names what does not fit."""
    sizes = parse_nnodes(nnodes)
    try:
        return elasticity_of(conf, sizes, max_restarts=max_restarts, node_unit=node_unit)
    except ElasticityError as error:
        raise click.UsageError(str(error)) from None
