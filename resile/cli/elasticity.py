"""torchrun's notation for sizes and patience (--nnodes, --rdzv-conf), read into an Elasticity."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

import click
import msgspec

from resile.job.elasticity import Elasticity, ElasticityError

SYNONYMS = {
    "last_call_timeout": "last_call",
    "lastcall_timeout": "last_call",
    "timeout": "join_timeout",
    "lease_timeout": "lease",
}
"""What torch's and DLRover's backends call the same things."""

WITHOUT_MEANING = frozenset(
    {
        "close_timeout",
        "heartbeat",
        "heartbeat_timeout",
        "is_host",
        "keep_alive_interval",
        "keep_alive_max_attempt",
        "pend_timeout",
        "protocol",
        "read_timeout",
        "store_type",
        "cacert",
        "cert",
        "key",
        "ssl_cert",
        "ssl_cert_key",
        "ca_cert",
        "rank",
        "use_libuv",
    }
)
"""Keys of torch's and DLRover's backends that have nothing to set here."""


@dataclass(frozen=True)
class RendezvousConf:
    """What --rdzv-conf said."""

    settings: dict[str, float]
    ignored: tuple[str, ...]


def parse_nnodes(text: str) -> tuple[int, int]:
    """``N`` or ``MIN:MAX``."""
    parts = text.split(":")
    if len(parts) > 2 or not all(part.isdigit() for part in parts):
        raise click.UsageError(f"--nnodes {text}: write N, or MIN:MAX such as 1:4")
    low, high = int(parts[0]), int(parts[-1])
    if low < 1:
        raise click.UsageError(f"--nnodes {text}: a job needs at least 1 node")
    if low > high:
        raise click.UsageError(f"--nnodes {text}: MIN ({low}) is greater than MAX ({high})")
    return low, high


def parse_conf(text: str) -> RendezvousConf:
    """``key=value,key=value``; unknown keys are the user's mistake, foreign ones are not."""
    known = [name for name in Elasticity.__struct_fields__ if not name.endswith("_nodes")]
    settings: dict[str, float] = {}
    ignored = []
    for pair in filter(None, (piece.strip() for piece in text.split(","))):
        key, _, value = pair.partition("=")
        name = SYNONYMS.get(key.strip().replace("-", "_"), key.strip().replace("-", "_"))
        if name in WITHOUT_MEANING:
            ignored.append(name)
        elif name not in known:
            close = difflib.get_close_matches(name, [*known, *SYNONYMS], n=1)
            hint = f"; did you mean {close[0]}?" if close else f"; known are {', '.join(known)}"
            raise click.UsageError(f"--rdzv-conf {pair}: there is no setting '{name}'{hint}")
        else:
            settings[name] = _number(value, pair)
    return RendezvousConf(settings, tuple(ignored))


def _number(value: str, pair: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise click.UsageError(f"--rdzv-conf {pair}: a number is wanted after the '='") from None


def build_elasticity(
    nnodes: str, conf: RendezvousConf, *, max_restarts: int, node_unit: int | None = None
) -> Elasticity:
    """All flags together, or a usage error that names what does not fit."""
    low, high = parse_nnodes(nnodes)
    values: dict[str, object] = {**conf.settings, "min_nodes": low, "max_nodes": high}
    values.setdefault("max_restarts", max_restarts)
    if node_unit is not None:
        values["node_unit"] = node_unit
    for name in ("max_restarts", "node_unit"):
        if isinstance(value := values.get(name), float):
            values[name] = int(value)
    try:
        return msgspec.convert(values, Elasticity)
    except (ElasticityError, msgspec.ValidationError) as error:
        raise click.UsageError(str(error)) from None
