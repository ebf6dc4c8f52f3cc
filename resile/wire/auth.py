"""Who may talk to a job's master: one secret token a job, and TLS when a certificate is given.

The token travels in the ``Authorization`` header of every connection. It is never taken from the
command line, which every user of a machine can read: it comes from a file, from the environment,
or is made here and kept in a file that only its owner can read.
"""

from __future__ import annotations

import hmac
import os
import secrets
import ssl
from pathlib import Path

TOKEN_VARIABLE = "RESILE_TOKEN"
TOKEN_FILE_VARIABLE = "RESILE_TOKEN_FILE"
SHORTEST_TOKEN = 16


class AuthError(ValueError):
    """The user's token or certificate cannot be used."""


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
    """The token in ``path``, made on first use; safe when several processes ask at once.

    A complete file is linked into place, so nobody reads one half written, and the first wins.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists():
        draft = path.with_name(f"{path.name}.{os.getpid()}")
        write_private(draft, new_token())
        try:
            os.link(draft, path)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    return read_token(path)


def write_private(path: Path, text: str) -> None:
    """Write a new file that only its owner can read."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text + "\n")


def authorization(token: str) -> dict[str, str]:
    """The header that proves the right to talk."""
    return {"Authorization": f"Bearer {token}"}


def authorized(header: str | None, token: str) -> bool:
    """Whether a request's header proves it; takes the same time for every wrong token."""
    return hmac.compare_digest((header or "").encode(), f"Bearer {token}".encode())


def server_tls(certificate: str | None, key: str | None) -> ssl.SSLContext | None:
    """TLS for a master, when the user gave a certificate."""
    if not certificate:
        if key:
            raise AuthError("--tls-key needs --tls-cert beside it")
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise AuthError(f"--tls-cert {certificate} cannot be used: {error}") from None
    return context


def client_tls(authority: str | None) -> ssl.SSLContext | None:
    """TLS towards a master, trusting the certificates in ``authority``."""
    if not authority:
        return None
    try:
        return ssl.create_default_context(cafile=authority)
    except (OSError, ssl.SSLError) as error:
        raise AuthError(f"--tls-ca {authority} cannot be used: {error}") from None
