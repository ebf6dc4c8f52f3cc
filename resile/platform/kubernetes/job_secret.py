"""The content of a job's Secret: the token, and the master's certificate and key.

Nodes get the token and the authority's certificate, only the master gets the key. A job whose
Secret has no certificate runs without TLS: ``spec.master.tls`` is false, or the Secret was created
by a version without TLS.
"""

from __future__ import annotations

import base64
import binascii
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from resile.wire.auth import AuthError, client_tls, read_token_of

__all__ = [
    "AUTHORITY_KEY",
    "CERTIFICATE_KEY",
    "KEY_KEY",
    "READ_TOKEN_KEY",
    "TOKEN_KEY",
    "JobSecret",
    "read_secret",
]

TOKEN_KEY = "token"
READ_TOKEN_KEY = "read-token"
"""Derived from the token, to be mounted alone; Secrets of earlier versions have none."""
AUTHORITY_KEY = "ca.crt"
CERTIFICATE_KEY = "tls.crt"
KEY_KEY = "tls.key"


@dataclass(frozen=True)
class JobSecret:
    """A job's credentials. Certificates and key are PEM texts, and empty without TLS."""

    token: str
    authority: str = ""
    certificate: str = ""
    key: str = ""

    @property
    def has_tls(self) -> bool:
        """True if the master serves TLS."""
        return bool(self.certificate)

    @property
    def data(self) -> dict[str, str]:
        """The data of the Secret."""
        held = {
            TOKEN_KEY: self.token,
            READ_TOKEN_KEY: read_token_of(self.token),
            AUTHORITY_KEY: self.authority,
            CERTIFICATE_KEY: self.certificate,
            KEY_KEY: self.key,
        }
        return {key: text for key, text in held.items() if text}

    def client_context(self) -> ssl.SSLContext | None:
        """Return the TLS settings for the master at any address: the authority signed only its
        certificate, so names need not be compared. Raises :class:`ValueError` if it is invalid."""
        context = client_tls(self.authority or None)
        if context is not None:
            context.check_hostname = False
        return context


def read_secret(secret: Mapping[str, Any]) -> JobSecret:
    """Read a Secret as the API server returns it; raises :class:`ValueError` if it is invalid."""
    data = secret.get("data") or {}
    try:
        held = {key: base64.b64decode(text, validate=True).decode() for key, text in data.items()}
    except (TypeError, binascii.Error, UnicodeDecodeError):
        raise ValueError("its data is not text") from None
    if not held.get(TOKEN_KEY):
        raise ValueError(f"it has no {TOKEN_KEY}")
    found = JobSecret(
        token=held[TOKEN_KEY],
        authority=held.get(AUTHORITY_KEY, ""),
        certificate=held.get(CERTIFICATE_KEY, ""),
        key=held.get(KEY_KEY, ""),
    )
    if len({bool(found.authority), bool(found.certificate), bool(found.key)}) > 1:
        raise ValueError(f"it needs all of {AUTHORITY_KEY}, {CERTIFICATE_KEY}, {KEY_KEY}, or none")
    try:
        found.client_context()
    except AuthError:
        raise ValueError(f"its {AUTHORITY_KEY} is not a certificate") from None
    return found
