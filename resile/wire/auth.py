"""Access to a job: one secret token, a second one that can only read, and TLS when a certificate is
given.

The job's token has the scope write, which is everything. The read token is derived from it, so that
there is nothing more to store or distribute, and the job's token cannot be found from it. Both
sides prove that they know the token without sending it (``digest.py``). It is never taken from
the command line, which every user of a machine can read: it comes from a file, from the
environment, or is made here and kept in a file that only its owner can read.
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
"""The certificates to trust where the master speaks TLS: a file, or their PEM text."""

SHORTEST_TOKEN = 16

READ_LABEL = b"resile read token, version 1"
"""What a read token is derived with. Tokens that were handed out depend on it."""


class AuthError(ValueError):
    """The user's token or certificate cannot be used."""


class Scope(Enum):
    """What a token allows."""

    READ = "read"
    """Look: status, events, logs, metrics."""

    WRITE = "write"
    """Everything: change and delete the job, join it as a node."""


def read_token_of(token: str) -> str:
    """The token with the scope read that belongs to a job's token."""
    derived = hmac.digest(token.encode(), READ_LABEL, "sha256")
    return urlsafe_b64encode(derived).decode().rstrip("=")


def new_token() -> str:
    """A token nobody can guess."""
    return secrets.token_urlsafe(32)


def read_token(path: Path) -> str:
    """The token in a file, without surrounding white space."""
    try:
        token = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise AuthError(f"the token file {path} cannot be read: {reason}") from None
    return checked(token, source=f"the token file {path}")


def checked(token: str, *, source: str) -> str:
    """``token`` itself, if it is long enough and can stand in a header."""
    if len(token) < SHORTEST_TOKEN:
        raise AuthError(
            f"{source} is shorter than {SHORTEST_TOKEN} characters; that can be guessed"
        )
    if not (token.isascii() and token.isprintable() and " " not in token):
        raise AuthError(f"{source} may hold printable ASCII characters only, without spaces")
    return token


def given_token(token_file: str | None) -> str | None:
    """What the user gave: ``--token-file`` first, then the environment; None for nothing."""
    if token_file:
        return read_token(Path(token_file))
    if token := os.environ.get(TOKEN_VARIABLE):
        return checked(token, source=f"${TOKEN_VARIABLE}")
    if path := os.environ.get(TOKEN_FILE_VARIABLE):
        return read_token(Path(path))
    return None


def shared_token(path: Path) -> str:
    """The token in ``path``, made on first use; safe when several processes ask at once."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            _make_token(path)
        _refuse_others(path)
    except OSError as error:
        raise AuthError(f"the token file {path} cannot be made: {error.strerror}") from None
    return read_token(path)


def _make_token(path: Path) -> None:
    """A complete file is linked into place, so nobody reads one half written; the first wins."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        write_private(draft, new_token())
        os.link(draft, path)
    except FileExistsError:
        return
    finally:
        draft.unlink(missing_ok=True)


def _refuse_others(path: Path) -> None:
    """A token that was put there by somebody else, or that others can read, is no secret."""
    found = path.stat()
    if found.st_uid != os.geteuid():
        raise AuthError(f"the token file {path} belongs to another user; remove it")
    if stat.S_IMODE(found.st_mode) & (stat.S_IRWXG | stat.S_IRWXO):
        raise AuthError(f"the token file {path} is open to other users: run chmod 600 on it")


def write_private(path: Path, text: str) -> None:
    """Write a new file that only its owner can read. It must not be there before."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text + "\n")


class Tokens:
    """The tokens of one job, by their scopes."""

    def __init__(self, token: str) -> None:
        self.by_scope = {Scope.WRITE: token, Scope.READ: read_token_of(token)}

    def bearer(self, header: str | None) -> Scope | None:
        """The scope of a request whose header is a token itself; takes the same time for every
        wrong one."""
        # aiohttp hands on bytes that are no UTF-8 as surrogates; they are a wrong token, no fault.
        given = (header or "").encode(errors="surrogateescape")
        right = [
            scope
            for scope, token in self.by_scope.items()
            if hmac.compare_digest(given, f"Bearer {token}".encode())
        ]
        return right[0] if right else None


def server_tls(certificate: str | None, key: str | None) -> ssl.SSLContext | None:
    """TLS for a master, when the user gave a certificate."""
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
    """TLS towards a master, trusting the certificates in ``authority``: a file, or PEM text."""
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
    """OpenSSL's errors are OSErrors too, but name a line of its C code rather than a reason."""
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError):
        return error.strerror or str(error)
    if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
        return "the key does not belong to the certificate"
    return "there is no certificate or key in PEM format in it"
