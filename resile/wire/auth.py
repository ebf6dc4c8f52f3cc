"""Access to a job: a secret token, a second one that can only read, and TLS if a certificate is
given.

The job's token has the scope write, which allows everything. The read token is derived from it, so
that there is nothing more to store or distribute, and the job's token cannot be computed from it.
Both sides prove that they know the token without sending it (``digest.py``). It is never taken from
the command line, which every user of a machine can read: it comes from a file or the environment,
or is generated here and stored in a file that only its owner can read.
"""

from __future__ import annotations

import hmac
import os
import secrets
import ssl
import stat
from base64 import urlsafe_b64encode
from enum import Enum
from pathlib import Path

TOKEN_VARIABLE = "RESILE_TOKEN"
TOKEN_FILE_VARIABLE = "RESILE_TOKEN_FILE"
AUTHORITY_VARIABLE = "RESILE_MASTER_CA"
"""The certificates to trust if the master uses TLS: a file, or their PEM text."""

SHORTEST_TOKEN = 16

READ_LABEL = b"resile read token, version 1"
"""The label that read tokens are derived with. Tokens that were handed out depend on it."""


class AuthError(ValueError):
    """The user's token or certificate cannot be used."""


class Scope(Enum):
    """The scope of a token: the requests that it allows."""

    READ = "read"
    """Read status, events, logs and metrics."""

    WRITE = "write"
    """Everything: change and delete the job, join it as a node."""


def read_token_of(token: str) -> str:
    """Return the token with the scope read that belongs to a job's token."""
    derived = hmac.digest(token.encode(), READ_LABEL, "sha256")
    return urlsafe_b64encode(derived).decode().rstrip("=")


def new_token() -> str:
    """Return a random token that cannot be guessed."""
    return secrets.token_urlsafe(32)


def read_token(path: Path) -> str:
    """Return the token in a file, without surrounding white space."""
    try:
        token = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise AuthError(f"the token file {path} cannot be read: {reason}") from None
    return checked(token, source=f"the token file {path}")


def checked(token: str, *, source: str) -> str:
    """Return ``token`` if it is long enough and valid in a header; raises :class:`AuthError`."""
    if len(token) < SHORTEST_TOKEN:
        raise AuthError(
            f"{source} is shorter than {SHORTEST_TOKEN} characters; that can be guessed"
        )
    if not (token.isascii() and token.isprintable() and " " not in token):
        raise AuthError(f"{source} may hold printable ASCII characters only, without spaces")
    return token


def given_token(token_file: str | None) -> str | None:
    """Return the user's token, from ``--token-file`` or else the environment; None without one."""
    if token_file:
        return read_token(Path(token_file))
    if token := os.environ.get(TOKEN_VARIABLE):
        return checked(token, source=f"${TOKEN_VARIABLE}")
    if path := os.environ.get(TOKEN_FILE_VARIABLE):
        return read_token(Path(path))
    return None


def shared_token(path: Path) -> str:
    """Return the token in ``path``, created on first use; safe when several processes do so."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            _make_token(path)
        _refuse_others(path)
    except OSError as error:
        raise AuthError(f"the token file {path} cannot be made: {error.strerror}") from None
    return read_token(path)


def _make_token(path: Path) -> None:
    """Link a complete file into place, so that no reader sees half of it; the first wins."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        write_private(draft, new_token())
        os.link(draft, path)
    except FileExistsError:
        return
    finally:
        draft.unlink(missing_ok=True)


def _refuse_others(path: Path) -> None:
    """Refuse a token file of another user, or one that others can read: it is not a secret."""
    found = path.stat()
    if found.st_uid != os.geteuid():
        raise AuthError(f"the token file {path} belongs to another user; remove it")
    if stat.S_IMODE(found.st_mode) & (stat.S_IRWXG | stat.S_IRWXO):
        raise AuthError(f"the token file {path} is open to other users: run chmod 600 on it")


def write_private(path: Path, text: str) -> None:
    """Write a new file that only its owner can read. The file must not exist before."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text + "\n")


class Tokens:
    """The tokens of one job, by their scopes."""

    def __init__(self, token: str) -> None:
        self.by_scope = {Scope.WRITE: token, Scope.READ: read_token_of(token)}

    def bearer(self, header: str | None) -> Scope | None:
        """Return the scope of a request with a bearer token; takes the same time for every wrong
        one."""
        # aiohttp passes bytes that are not UTF-8 as surrogates: a wrong token, not an error.
        given = (header or "").encode(errors="surrogateescape")
        right = [
            scope
            for scope, token in self.by_scope.items()
            if hmac.compare_digest(given, f"Bearer {token}".encode())
        ]
        return right[0] if right else None


def server_tls(certificate: str | None, key: str | None) -> ssl.SSLContext | None:
    """Return the TLS context of a master; None if the user gave no certificate."""
    if not certificate:
        if key:
            raise AuthError("--tls-key needs --tls-cert beside it")
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)

    def passphrase() -> str:
        raise AuthError(f"the key in {key or certificate} is encrypted; give one that is not")

    flags = f"--tls-cert {certificate}" + (f" --tls-key {key}" if key else "")
    try:
        context.load_cert_chain(certificate, key, passphrase)
    except OSError as error:
        raise AuthError(f"{flags} cannot be used: {_tls_complaint(error)}") from None
    return context


def client_tls(authority: str | None) -> ssl.SSLContext | None:
    """Return a TLS context that trusts the certificates in ``authority``: a file, or PEM text."""
    if not authority:
        return None
    is_text = authority.lstrip().startswith("-----BEGIN")
    try:
        if is_text:
            return ssl.create_default_context(cadata=authority)
        return ssl.create_default_context(cafile=authority)
    except (OSError, ValueError) as error:
        source = f"${AUTHORITY_VARIABLE}" if is_text else f"--tls-ca {authority}"
        raise AuthError(f"{source} cannot be used: {_tls_complaint(error)}") from None


def _tls_complaint(error: OSError | ValueError) -> str:
    """Return the reason of an error. OpenSSL's are OSErrors too, but name a line of its C code."""
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError):
        return error.strerror or str(error)
    if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
        return "the key does not belong to the certificate"
    return "there is no certificate or key in PEM format in it"
