"""Parse torchrun's ``--rdzv-conf`` into a job's sizes and timeouts. Pure.

Used by our own command line and by the plugin for plain torchrun, so that a key means the same in
both. Keys of torch's and DLRover's backends are accepted: as synonyms where they name one of our
settings, otherwise they are ignored.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from resile.decoding import DecodeError, convert
from resile.job.elasticity import Elasticity, ElasticityError, GroupSuccess, RoleSize

SYNONYMS = {
    "last_call_timeout": "last_call",
    "lastcall_timeout": "last_call",
    "timeout": "join_timeout",
    "lease_timeout": "lease",
}
"""Names of torch's and DLRover's backends for our settings."""

IGNORED_KEYS = frozenset(
    {
        "close_timeout",
        "heartbeat",
        "heartbeat_timeout",
        "is_host",
        "keep_alive_interval",
        "keep_alive_max_attempt",
        "etcd_prefix",
        "pend_timeout",
        "protocol",
        "read_timeout",
        "store_type",
        "cacert",
        "cas_backoff_max_seconds",
        "cert",
        "key",
        "ssl_cert",
        "ssl_cert_key",
        "ca_cert",
        "rank",
        "use_libuv",
    }
)
"""Keys of torch's and DLRover's backends that have no counterpart here."""

TYPO_SIMILARITY = 0.75
"""How similar (by difflib's measure) an unknown key is to one of ours when it is a typo."""

ROLES = "roles"
"""Not a number: the sizes of each role."""

WHOLE_NUMBERS = frozenset({"max_restarts", "node_unit"})

WORDS: dict[str, dict[str, bool | str]] = {
    "independent": {"true": True, "1": True, "false": False, "0": False},
    "success": {success.value: success.value for success in GroupSuccess},
}
"""Settings that are not numbers, and the values that each can have."""


@dataclass(frozen=True)
class RendezvousConf:
    """The parsed ``--rdzv-conf``."""

    settings: dict[str, float]
    ignored: tuple[str, ...]
    roles: tuple[RoleSize, ...] = ()
    words: dict[str, bool | str] = field(default_factory=dict)


def read_conf(pairs: Mapping[str, str]) -> RendezvousConf:
    """Parse all pairs into settings and ignored keys.

    torchrun accepts any key, and its backends gain new ones, so an unknown key is ignored. One that
    is nearly a key of ours is taken for a typo (:class:`ElasticityError`).
    """
    known = [name for name in Elasticity.__struct_fields__ if not name.endswith("_nodes")]
    roles: tuple[RoleSize, ...] = ()
    settings: dict[str, float] = {}
    synonyms: dict[str, float] = {}
    words: dict[str, bool | str] = {}
    ignored = []
    for key, value in pairs.items():
        underscored = key.strip().replace("-", "_")
        name = SYNONYMS.get(underscored, underscored)
        if not underscored:
            raise ElasticityError(f"--rdzv-conf {key}={value}: write KEY=VALUE,KEY=VALUE")
        if name == ROLES:
            roles = read_roles(value)
            continue
        if name in WORDS:
            words[name] = _read_word(key, value, WORDS[name])
            continue
        if name in known:
            read = settings if name == underscored else synonyms
            read[name] = read_number(key, value, whole=name in WHOLE_NUMBERS)
            continue
        if name not in IGNORED_KEYS:
            _refuse_typos(key, value, name, known)
        ignored.append(name)
    # An explicit `join_timeout` overrides torch's `timeout`.
    return RendezvousConf({**synonyms, **settings}, tuple(ignored), roles, words)


def read_roles(text: str) -> tuple[RoleSize, ...]:
    """Parse the sizes of each role, in the order of ranks: ``chief:1:1/worker:1:4``, with a third
    number for a role's unit, if any."""
    return tuple(_read_role(part) for part in text.split("/") if part)


def write_roles(roles: tuple[RoleSize, ...]) -> str:
    """Format roles as :func:`read_roles` parses them."""
    return "/".join(
        f"{role.name}:{role.min_nodes}:{role.max_nodes}:{role.node_unit}" for role in roles
    )


def write_setting(value: object) -> str:
    """Format any field of an :class:`Elasticity` as a value of ``--rdzv-conf``."""
    match value:
        case tuple():
            return write_roles(value)
        case bool():
            return str(value).lower()
        case GroupSuccess():
            return value.value
        case _:
            return str(value)


def _read_word(key: str, value: str, allowed: Mapping[str, bool | str]) -> bool | str:
    word = value.strip().lower()
    if word not in allowed:
        raise ElasticityError(f"--rdzv-conf {key}={value}: write one of {', '.join(allowed)}")
    return allowed[word]


def _read_role(text: str) -> RoleSize:
    name, *numbers = text.split(":")
    if not name or len(numbers) not in (2, 3) or not all(n.isdecimal() for n in numbers):
        raise ElasticityError(
            f"--rdzv-conf {ROLES}={text}: write NAME:MIN:MAX, or NAME:MIN:MAX:UNIT, "
            "several with '/' between them"
        )
    least, most, unit = (int(n) for n in (*numbers, "1")[:3])
    return RoleSize(name=name, min_nodes=least, max_nodes=most, node_unit=unit)


def _refuse_typos(key: str, value: str, name: str, known: list[str]) -> None:
    close = difflib.get_close_matches(name, [*known, *SYNONYMS], n=1, cutoff=TYPO_SIMILARITY)
    if name.endswith("_nodes"):
        raise ElasticityError(f"--rdzv-conf {key}={value}: set sizes with --nnodes")
    if close:
        raise ElasticityError(
            f"--rdzv-conf {key}={value}: there is no setting '{name}'; did you mean {close[0]}?"
        )
    if not value:
        raise ElasticityError(f"--rdzv-conf {key}: the value is missing; write {key}=VALUE")


def read_number(key: str, value: str, *, whole: bool = False) -> float:
    """Parse the number of a key; raises :class:`ElasticityError` if it is not one."""
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or (whole and not number.is_integer()):
        expected = "a whole number" if whole else "a number"
        raise ElasticityError(f"--rdzv-conf {key}={value}: expected {expected} after the '='")
    return number


def elasticity_of(
    conf: RendezvousConf,
    nnodes: tuple[int, int],
    *,
    max_restarts: int,
    node_unit: int | None = None,
) -> Elasticity:
    """Combine all settings; raises :class:`ElasticityError` that names what does not fit."""
    values: dict[str, object] = {**conf.settings, **conf.words, ROLES: conf.roles}
    values["min_nodes"], values["max_nodes"] = nnodes
    values.setdefault("max_restarts", max_restarts)
    if node_unit is not None:
        values["node_unit"] = node_unit
    for name in WHOLE_NUMBERS:
        if isinstance(value := values.get(name), float):
            values[name] = int(value)
    try:
        return convert(values, Elasticity)
    except DecodeError as error:
        raise ElasticityError(str(error)) from None
