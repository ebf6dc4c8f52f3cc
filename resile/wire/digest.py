"""HTTP Digest authentication (RFC 7616, SHA-256) with the job's token, both ways.

    client -> master    a request without credentials
    master -> client    401 and a nonce
    client -> master    the request again, with a hash over the token, the nonces and the request
    master -> client    the answer, with a hash that takes the token to compute

Neither side sends the token, and a client believes nothing before it has checked the master's hash.
A process that took the master's port, or that reads the network, learns nothing it could use later:
a nonce is accepted once, and only for a short time. What is sent afterwards is not protected by
this. Where others can change packets on the way, use TLS.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import struct
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from urllib.request import parse_http_list

from resile.wire.auth import Scope, Tokens

__all__ = ["PROOF_PATH", "Credentials", "Verifier"]

PROOF_PATH = "/v1/proof"
"""A request for this path authenticates both sides and does nothing else: a client sends it first
on a connection over which it is going to send something."""

USER = "resile"
REALM = "resile"
COUNT = "00000001"
"""Each nonce is used once, so the count of its uses is always one."""

NONCE_LIFETIME = 60.0
"""Seconds within which a nonce must be used; a slow machine answers within a few."""

_RANDOM_BYTES = 16
_STAMP = struct.Struct(">d")


class Verifier:
    """The master's side: creates nonces, checks clients, and proves itself to them.

    Nonces are signed rather than stored, so that unauthenticated clients who request many cost no
    memory. Only used ones are stored, until they expire; using one takes the token.
    """

    def __init__(self, token: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        """``token``: the job's; the read token that belongs to it is accepted, too."""
        self._tokens = Tokens(token).by_scope
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._used: dict[str, float] = {}

    def challenge(self, *, stale: bool = False) -> str:
        """Return a refusal's ``WWW-Authenticate`` header. ``stale``: only the nonce was wrong."""
        again = ", stale=true" if stale else ""
        return (
            f'Digest realm="{REALM}", qop="auth", algorithm=SHA-256, '
            f'nonce="{self._new_nonce()}"{again}'
        )

    def verify(self, header: str, *, method: str, uri: str) -> Scope | None:
        """Return the scope of the token that an ``Authorization`` header was computed with, for
        this request; None if it is not a token of this job."""
        said = _parameters(header)
        if said.get("username") != USER or said.get("uri") != uri:
            return None
        right = [
            scope
            for scope, token in self._tokens.items()
            if _same(said.get("response", ""), _response(token, said, f"{method}:{uri}"))
        ]
        return right[0] if right else None

    def spend(self, header: str) -> bool:
        """Use up the nonce of a verified header; False if it is unknown, expired or used."""
        nonce, now = _parameters(header).get("nonce", ""), self._clock()
        self._used = {one: end for one, end in self._used.items() if end > now}
        expires = self._expiry(nonce)
        if expires is None or expires <= now or nonce in self._used:
            return False
        self._used[nonce] = expires
        return True

    def proof(self, header: str, scope: Scope = Scope.WRITE) -> str:
        """Return the ``Authentication-Info`` header for a verified header of that scope."""
        said = _parameters(header)
        code = _response(self._tokens[scope], said, f":{said['uri']}")
        return f'qop=auth, rspauth="{code}", nextnonce="{self._new_nonce()}"'

    def _new_nonce(self) -> str:
        random = _STAMP.pack(self._clock()) + secrets.token_bytes(_RANDOM_BYTES)
        return urlsafe_b64encode(random + self._signature(random)).decode()

    def _expiry(self, nonce: str) -> float | None:
        """Return when a nonce of this verifier expires; None for any other."""
        try:
            data = urlsafe_b64decode(nonce.encode("ascii"))
        except ValueError:
            return None
        size = _STAMP.size + _RANDOM_BYTES
        if not hmac.compare_digest(data[size:], self._signature(data[:size])):
            return None
        made: float = _STAMP.unpack_from(data)[0]
        return made + NONCE_LIFETIME

    def _signature(self, random: bytes) -> bytes:
        return hmac.digest(self._key, random, hashlib.sha256)


class Credentials:
    """The client's side of one conversation with one master."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._nonce: str | None = None
        self._said: dict[str, str] = {}

    def challenged(self, header: str | None) -> bool:
        """Take the nonce of a ``WWW-Authenticate`` header; False if it is not ours."""
        said = _parameters(header or "")
        if said.get("realm") != REALM or said.get("algorithm") != "SHA-256":
            return False
        self._nonce = said.get("nonce")
        return self._nonce is not None

    @staticmethod
    def is_stale(header: str | None) -> bool:
        """Return whether a request was refused only because its nonce was too old: retry with the
        new one."""
        return _parameters(header or "").get("stale") == "true"

    def authorization(self, method: str, uri: str) -> dict[str, str]:
        """Return the header for a request; empty without a nonce, as each is used once."""
        if self._nonce is None:
            return {}
        self._said = {
            "username": USER,
            "realm": REALM,
            "nonce": self._nonce,
            "uri": uri,
            "cnonce": secrets.token_urlsafe(_RANDOM_BYTES),
        }
        self._nonce = None
        response = _response(self._token, self._said, f"{method}:{uri}")
        quoted = ", ".join(f'{name}="{value}"' for name, value in self._said.items())
        return {
            "Authorization": f"Digest {quoted}, qop=auth, nc={COUNT}, algorithm=SHA-256, "
            f'response="{response}"'
        }

    def proven_by(self, header: str | None) -> bool:
        """Return whether ``Authentication-Info`` proves that the master knows the token."""
        said = _parameters(f"Digest {header or ''}")
        if not self._said:
            return False
        expected = _response(self._token, self._said, f":{self._said['uri']}")
        if not _same(said.get("rspauth", ""), expected):
            return False
        self._nonce = said.get("nextnonce")
        return True


def _response(token: str, said: dict[str, str], request: str) -> str:
    """Compute the hash of RFC 7616, 3.4.1 with qop=auth. ``request`` is A2: without a method for
    the master's proof."""
    secret = _hash(f"{USER}:{REALM}:{token}")
    parts = (said.get("nonce", ""), said.get("nc", COUNT), said.get("cnonce", ""), "auth")
    return _hash(":".join((secret, *parts, _hash(request))))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(errors="surrogateescape"), other.encode())


def _parameters(header: str) -> dict[str, str]:
    """Return the parameters of a Digest header; empty for anything else."""
    scheme, _, rest = header.partition(" ")
    if scheme.lower() != "digest":
        return {}
    pairs = (one.partition("=") for one in parse_http_list(rest))
    return {name: value.strip('"') for name, _, value in pairs}
