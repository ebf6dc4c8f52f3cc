"""Authentication of requests: by a token, a token in a file, a password, or a credential plugin.

A client certificate is not part of this: it belongs to the connection (``tls``).
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
    """The credential of a request."""

    @property
    def authorization(self) -> str | None:
        """The value of the Authorization header; None for no header."""


class Authentication(Protocol):
    """A source of credentials."""

    async def credential(self, *, refused: Credential | None = None) -> Credential:
        """Return the credential to use now; ``refused``: the one that the server rejected.

        Returns an equal one if there is no other. Raises ConfigError if there is none at all.
        """


@dataclass(frozen=True)
class Header:
    """A credential that consists of a header."""

    authorization: str | None


class FixedAuth:
    """A credential that never changes."""

    def __init__(self, authorization: str | None = None) -> None:
        self._header = Header(authorization)

    async def credential(self, *, refused: Credential | None = None) -> Credential:  # noqa: ARG002
        """Return the only credential."""
        return self._header


class TokenFileAuth:
    """A token in a file. The kubelet writes a new one before the old one expires, so the file is
    read again when a token is rejected."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._known: Header | None = None

    async def credential(self, *, refused: Credential | None = None) -> Credential:
        """Return the token that was read last, unless it is the one that was rejected."""
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
    """Choose the credentials as kubectl does: a token first, and a plugin if there is none.

    ``tls``: the settings of all connections; a plugin may add a client certificate to them.
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
