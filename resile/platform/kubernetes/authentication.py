"""How requests say whose they are: a token, a token in a file, a password, or a plugin's answer.

A client certificate is no part of this: it belongs to the connection (``tls``).
"""

from __future__ import annotations

import base64
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from resile.platform.kubernetes.credentials import PluginAuth
from resile.platform.kubernetes.entries import UserEntry
from resile.platform.kubernetes.errors import ConfigError

__all__ = ["Authentication", "Credential", "authentication_of"]


class Credential(Protocol):
    """What a request is sent with. Those that are equal say the same."""

    @property
    def authorization(self) -> str | None:
        """The value of the Authorization header, if there is to be one."""


class Authentication(Protocol):
    """Where credentials come from."""

    async def credential(self, *, refused: Credential | None = None) -> Credential:
        """The credential to use now; ``refused``: the one that the server did not take.

        An equal one comes back where there is no other. Raises ConfigError if there is none.
        """


@dataclass(frozen=True)
class Header:
    """A credential that is a header, and nothing but that header."""

    authorization: str | None


class FixedAuth:
    """One credential for ever."""

    def __init__(self, authorization: str | None = None) -> None:
        self._header = Header(authorization)

    async def credential(self, *, refused: Credential | None = None) -> Credential:  # noqa: ARG002
        """The only one."""
        return self._header


class TokenFileAuth:
    """A token in a file. The kubelet writes a new one there before the old one expires, so the
    file is read again when a token is refused."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._known: Header | None = None

    async def credential(self, *, refused: Credential | None = None) -> Credential:
        """The token last read, unless it is the one that was refused."""
        if self._known is None or self._known is refused:
            self._known = Header(f"Bearer {self._read()}")
        return self._known

    def _read(self) -> str:
        try:
            return self._path.read_text().strip()
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise ConfigError(f"the token file {self._path} cannot be read: {why}") from None


def authentication_of(user: UserEntry, *, tls: ssl.SSLContext) -> Authentication:
    """As kubectl has it: a token goes first, and a plugin is asked where there is none.

    ``tls``: the settings of all connections; a plugin may add a certificate to them.
    """
    if user.token_file:
        return TokenFileAuth(user.token_file)
    if user.token:
        return FixedAuth(f"Bearer {user.token}")
    if user.exec:
        return PluginAuth(user.exec, tls=tls)
    if user.username and user.password:
        pair = base64.b64encode(f"{user.username}:{user.password}".encode())
        return FixedAuth(f"Basic {pair.decode()}")
    return FixedAuth()
