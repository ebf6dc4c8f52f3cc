"""Addresses of masters: parsing, and whether one belongs to this machine."""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import dataclass

import psutil

DEFAULT_PORT = 29400
LAST_PORT = 65535

EVERY_ADDRESS = "*"
"""As a host to listen on: all addresses of this machine, IPv4 and IPv6."""


class EndpointError(ValueError):
    """A text is not HOST:PORT, or the host cannot be used."""


@dataclass(frozen=True)
class Endpoint:
    """The address on which a master listens."""

    host: str
    port: int

    @property
    def listening_host(self) -> str | None:
        """The host as servers take it; None for every address of every family."""
        return None if self.host == EVERY_ADDRESS else self.host

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_endpoint(text: str) -> Endpoint:
    """Parse ``HOST``, ``HOST:PORT`` or ``[v6]:PORT``; the port defaults to torchrun's 29400."""
    host, port = text.strip(), ""
    if host.startswith("["):
        host, _, rest = host[1:].partition("]")
        port = rest.removeprefix(":")
    elif host.count(":") == 1:
        host, _, port = host.partition(":")
    if not host or not host.isprintable():
        raise EndpointError(
            f"{text!r} is not an endpoint; write HOST:PORT, such as 127.0.0.1:29400"
        )
    if not port:
        return Endpoint(host, DEFAULT_PORT)
    if not re.fullmatch("[0-9]{1,5}", port) or int(port) > LAST_PORT:
        raise EndpointError(f"'{text}': the port must be a number from 0 to 65535, not '{port}'")
    return Endpoint(host, int(port))


def is_this_machine(host: str) -> bool:
    """Return whether ``host`` resolves to an address that one of this machine's interfaces has."""
    try:
        found = {str(info[4][0]) for info in socket.getaddrinfo(host, None)}
    except (socket.gaierror, UnicodeError) as error:
        raise EndpointError(f"'{host}' cannot be resolved: {_complaint(error)}") from None
    if any(address.startswith("127.") or address == "::1" for address in found):
        return True
    own = {a.address.split("%")[0] for nics in psutil.net_if_addrs().values() for a in nics}
    return bool(found & own)


def is_loopback(host: str) -> bool:
    """Return whether only processes of this machine can reach ``host``."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that was free a moment ago."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        try:
            probe.bind((host, 0))
        except (OSError, UnicodeError) as error:
            raise EndpointError(f"no port at '{host}': {_complaint(error)}") from None
        port: int = probe.getsockname()[1]
        return port


def address_towards(endpoint: Endpoint) -> str:
    """Return this machine's address on the route to ``endpoint``, where other nodes can reach it.

    Connecting a UDP socket sends nothing; it only consults the routing table.
    """
    try:
        info = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(info[0], socket.SOCK_DGRAM) as probe:
            probe.connect(info[4])
            return str(probe.getsockname()[0])
    except (OSError, UnicodeError) as error:
        raise EndpointError(f"'{endpoint.host}' cannot be reached: {_complaint(error)}") from None


def _complaint(error: OSError | UnicodeError) -> str:
    """Return the resolver's message; a name that cannot be encoded raises UnicodeError."""
    if isinstance(error, UnicodeError):
        return "not a valid host name"
    return error.strerror or str(error)
