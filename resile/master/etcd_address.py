"""The URL of an etcd store: ``etcd://HOST:PORT[,HOST:PORT...]/PREFIX[?KEY=VALUE]``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from resile.master.stores import StoreUnusable
from resile.wire.endpoint import Endpoint

DEFAULT_PORT = 2379
DEFAULT_PREFIX = "/resile"

SHORTEST_LEASE = 2
"""The shortest that etcd grants with its default timings, in seconds."""


@dataclass(frozen=True)
class EtcdAddress:
    """The hosts of an etcd, the prefix of one master's keys, and timeouts."""

    hosts: tuple[Endpoint, ...]
    prefix: str = DEFAULT_PREFIX
    tls: bool = False

    lease: int = 5
    """Seconds after which a silent master may be replaced; as long as a node's own lease."""

    patience: float = 30.0
    """Seconds for which requests to an unavailable etcd are retried. The cause is most likely an
    election or a restart; training continues meanwhile and nothing is lost."""

    def __str__(self) -> str:
        hosts = ",".join(str(host) for host in self.hosts)
        return f"{'etcds' if self.tls else 'etcd'}://{hosts}{self.prefix}"


def parse_etcd_url(text: str) -> EtcdAddress:
    """Parse a URL; ``etcds://`` is TLS. Raises StoreUnusable with what is wrong."""
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
        raise StoreUnusable(f"--store {text}: '{host}' is not HOST:PORT")
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
