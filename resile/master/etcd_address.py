"""What a user writes to name an etcd: ``etcd://HOST:PORT[,HOST:PORT...]/PREFIX[?KEY=VALUE]``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from resile.master.stores import StoreUnusable
from resile.wire.endpoint import Endpoint

DEFAULT_PORT = 2379
DEFAULT_PREFIX = "/resile"

SHORTEST_LEASE = 2
"""etcd itself grants none shorter, with its default timings."""


@dataclass(frozen=True)
class EtcdAddress:
    """Where an etcd listens, under which prefix one master's keys lie, and how patient it is."""

    hosts: tuple[Endpoint, ...]
    prefix: str = DEFAULT_PREFIX
    tls: bool = False

    lease: int = 5
    """Seconds until a master that went silent may be replaced; as long as a node's own lease."""

    patience: float = 30.0
    """For how many seconds an etcd that went away is asked again. That is most likely an election
    or a restart; training goes on meanwhile and nothing is lost."""

    def __str__(self) -> str:
        hosts = ",".join(str(host) for host in self.hosts)
        return f"{'etcds' if self.tls else 'etcd'}://{hosts}{self.prefix}"


def parse_etcd_url(text: str) -> EtcdAddress:
    """Read what the user wrote; ``etcds://`` is TLS. Raises StoreUnusable with what is wrong."""
    url, _, query = text.partition("?")
    scheme, _, rest = url.partition("://")
    hosts, _, path = rest.partition("/")
    if scheme not in ("etcd", "etcds") or not hosts:
        raise StoreUnusable(f"--store {text}: write etcd://HOST:PORT[,HOST:PORT...]/PREFIX")
    if "@" in hosts:
        raise StoreUnusable(
            "--store: a user and password on the command line can be read by everybody on this "
            "machine; leave them out"
        )
    settings = _parse_settings(query, text)
    return EtcdAddress(
        hosts=tuple(_parse_host(host, text) for host in hosts.split(",")),
        prefix="/" + path.strip("/") if path.strip("/") else DEFAULT_PREFIX,
        tls=scheme == "etcds",
        lease=int(settings.get("lease", EtcdAddress.lease)),
        patience=settings.get("patience", EtcdAddress.patience),
    )


def _parse_host(host: str, text: str) -> Endpoint:
    try:
        parts = urlsplit(f"//{host}")
        name, port = parts.hostname, parts.port
    except ValueError:
        name, port = None, None
    if not name:
        raise StoreUnusable(f"--store {text}: '{host}' is no HOST:PORT")
    return Endpoint(name, DEFAULT_PORT if port is None else port)


def _parse_settings(query: str, text: str) -> dict[str, float]:
    settings: dict[str, float] = {}
    smallest = {"lease": SHORTEST_LEASE, "patience": 0}
    for key, value in parse_qsl(query, keep_blank_values=True):
        if key not in smallest:
            raise StoreUnusable(f"--store {text}: '{key}' is neither lease nor patience")
        try:
            settings[key] = float(value)
        except ValueError:
            settings[key] = math.nan
        if not smallest[key] <= settings[key] < math.inf:
            raise StoreUnusable(
                f"--store {text}: {key} must be a number of seconds, at least {smallest[key]}"
            )
    return settings
