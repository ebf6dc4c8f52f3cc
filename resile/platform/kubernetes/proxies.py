"""The proxy for requests to a cluster: from its kubeconfig or from the environment.

A cluster's ``proxy-url`` takes precedence over ``$HTTPS_PROXY``, ``$HTTP_PROXY`` and
``$ALL_PROXY``, and ``$NO_PROXY`` lists hosts that are reached directly: names with their
subdomains, addresses and networks (10.0.0.0/8), each with or without a port, or ``*`` for all.
aiohttp's own support (``trust_env``) is not used: it does not know networks, and sends passwords
from ``~/.netrc`` to the server.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies

from resile.platform.kubernetes.entries import ClusterConfig
from resile.platform.kubernetes.errors import ConfigError

__all__ = ["proxy_for"]

SCHEMES = frozenset({"http", "https"})


def proxy_for(config: ClusterConfig, environment: Mapping[str, str] | None = None) -> str | None:
    """Return the proxy's URL, or None. Raises ConfigError, which names the setting, if it is not a
    valid proxy.

    ``environment``: proxies by scheme, as :func:`urllib.request.getproxies` has them.
    """
    if named := config.cluster.proxy_url:
        where = f"the 'proxy-url' in {config.file} (context {config.context_name!r})"
        return _checked(named, where=where)
    proxies = getproxies() if environment is None else environment
    server = urlsplit(config.cluster.server)
    if _is_excepted(server, proxies.get("no", "")):
        return None
    for scheme in (server.scheme, "all"):
        if named := proxies.get(scheme):
            with_scheme = named if "://" in named else f"http://{named}"
            return _checked(with_scheme, where=f"the proxy in ${scheme.upper()}_PROXY")
    return None


def _checked(url: str, *, where: str) -> str:
    if why := _why_not(url):
        raise ConfigError(f"{where} cannot be used: {why}")
    return url


def _why_not(url: str) -> str:
    try:
        parts = urlsplit(url)
        host = parts.hostname and parts.port != 0
    except ValueError as error:
        return str(error)
    if parts.scheme not in SCHEMES:
        return f"its scheme is {parts.scheme!r}, and only http and https proxies are supported"
    return "" if host else "it has no host"


def _is_excepted(server: SplitResult, listed: str) -> bool:
    entries = [entry.strip().lower() for entry in listed.split(",")]
    return any(entry == "*" or _covers(entry, server) for entry in entries if entry)


def _covers(entry: str, server: SplitResult) -> bool:
    host = server.hostname or ""
    with suppress(ValueError):
        # A network, or an address with or without brackets.
        network = ipaddress.ip_network(entry.strip("[]"), strict=False)
        try:
            return ipaddress.ip_address(host) in network
        except ValueError:
            return False
    name, _, port = entry.rpartition(":")
    if name and port.isdecimal():
        return int(port) == _port_of(server) and _covers(name, server)
    domain = entry.removeprefix("*").removeprefix(".")
    return host.endswith(f".{domain}") or (host == domain and domain == entry)


def _port_of(server: SplitResult) -> int:
    return server.port or (443 if server.scheme == "https" else 80)
