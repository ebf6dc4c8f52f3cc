"""Authentication to an API server: TLS settings, tokens, passwords and credential plugins.

Without a certificate authority in the kubeconfig the system's are trusted, or those that
``$SSL_CERT_FILE`` and ``$SSL_CERT_DIR`` name, as everywhere with OpenSSL. A client certificate
belongs to the connection; every other credential is a header of each request.

Credential plugins (``exec`` in a kubeconfig) are programs that print credentials. They have a
timeout, and their stderr and prompts reach the user: a plugin may open a browser, or ask for a
code.
"""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Protocol

import msgspec

from resile.decoding import DecodeError, decode_json
from resile.kube.errors import ConfigError
from resile.kube.kubeconfig import ClusterEntry, PluginEntry, UserEntry

__all__ = [
    "Authentication",
    "Credential",
    "PluginAuth",
    "authentication_of",
    "show_certificate",
    "tls_context",
]


def tls_context(cluster: ClusterEntry, user: UserEntry) -> ssl.SSLContext:
    """Return the TLS settings of all connections to a cluster.

    Raises ConfigError for files that cannot be read, and ssl's errors (SSLError, OSError,
    ValueError) for invalid certificates.
    """
    context = _verifying(cluster)
    context.set_alpn_protocols(["http/1.1"])
    if user.client_certificate or user.client_certificate_data:
        certificate = _content(
            user.client_certificate_data, user.client_certificate, key="client-certificate"
        )
        key = _content(user.client_key_data, user.client_key, key="client-key")
        show_certificate(context, certificate, key)
    return context


def show_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Use this client certificate (PEM) from now on; ssl loads one from files only."""
    with _file_with(certificate) as certificate_file, _file_with(key) as key_file:
        context.load_cert_chain(certificate_file, key_file)


def _verifying(cluster: ClusterEntry) -> ssl.SSLContext:
    given = cluster.certificate_authority_data or cluster.certificate_authority
    if given:
        content = _content(
            cluster.certificate_authority_data,
            cluster.certificate_authority,
            key="certificate-authority",
        )
        with _file_with(content) as file:
            return ssl.create_default_context(cafile=file)
    context = ssl.create_default_context()
    if cluster.insecure_skip_tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _content(data: str | None, path: str | None, *, key: str) -> bytes:
    """Return the data, or the content of the file; if both are given, the data, as in kubectl."""
    if data:
        return base64.b64decode(data)
    if not path:
        return b""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(
            f"the {key!r} that the kubeconfig names cannot be read: {path}: {error.strerror}"
        ) from None


@contextmanager
def _file_with(content: bytes) -> Iterator[str]:
    """A temporary file that only this user can read."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        yield file.name


PLUGIN_TIMEOUT = 180.0
"""Seconds. A plugin may open a browser to log in; kubelogin, a common one, waits so long."""

PLUGIN_APIS = frozenset(
    f"client.authentication.k8s.io/{version}" for version in ("v1", "v1beta1", "v1alpha1")
)


class _Credential(msgspec.Struct, frozen=True, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: datetime | None = None

    @property
    def authorization(self) -> str | None:
        return f"Bearer {self.token}" if self.token else None

    @property
    def usable(self) -> bool:
        until = self.expiration_timestamp
        if until is not None and until.tzinfo is None:
            until = until.replace(tzinfo=timezone.utc)
        return until is None or datetime.now(timezone.utc) < until


class _PluginAnswer(msgspec.Struct):
    status: _Credential


class PluginAuth:
    """Runs a program for credentials: at first, when they have expired, and when they are rejected.

    It writes to our stderr, and on a terminal it may prompt the user.
    """

    def __init__(self, plugin: PluginEntry, *, tls: ssl.SSLContext) -> None:
        """``tls``: the settings of all connections; a client certificate is added to them."""
        if plugin.api_version not in PLUGIN_APIS:
            raise ConfigError(
                f"the credential plugin {plugin.command!r} uses {plugin.api_version!r}; "
                f"supported are: {', '.join(sorted(PLUGIN_APIS))}"
            )
        self._plugin = plugin
        self._tls = tls
        self._credential: _Credential | None = None
        self._asking = asyncio.Lock()

    def __str__(self) -> str:
        """Return its name for messages."""
        return f"the credential plugin {self._plugin.command!r}"

    @property
    def asking(self) -> bool:
        """True while requests wait for the program."""
        return self._asking.locked()

    async def credential(self, *, refused: object = None) -> _Credential:
        """Return the last credential, unless it has expired or is the ``refused`` one."""
        async with self._asking:
            known = self._credential
            if known is None or known is refused or not known.usable:
                known = self._credential = self._understood(await self._ask())
            return known

    async def _ask(self) -> bytes:
        plugin = self._plugin
        interactive = plugin.interactive_mode != "Never" and sys.stdin.isatty()
        info = {
            "apiVersion": plugin.api_version,
            "kind": "ExecCredential",
            "spec": {"interactive": interactive},
        }
        variables = {variable.name: variable.value for variable in plugin.env or ()}
        variables["KUBERNETES_EXEC_INFO"] = msgspec.json.encode(info).decode()
        environment = {**os.environ, **variables}
        try:
            # A file, not a pipe: processes that the plugin leaves behind could keep a pipe open.
            with tempfile.TemporaryFile() as printed:
                code = await self._run(environment, printed, interactive=interactive)
                if code:
                    raise self._failed(f"exited with code {code}")
                printed.seek(0)
                return printed.read()
        except OSError as error:
            raise self._failed(f"failed: {error}") from None

    async def _run(
        self, environment: Mapping[str, str], printed: IO[bytes], *, interactive: bool
    ) -> int:
        try:
            process = await asyncio.create_subprocess_exec(
                self._plugin.command,
                *(self._plugin.args or ()),
                env=environment,
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=printed,
            )
        except (OSError, ValueError) as error:
            hint = " ".join((self._plugin.install_hint or "").split())
            raise self._failed(f"cannot be run: {error}{hint and '; ' + hint}") from None
        try:
            return await asyncio.wait_for(process.wait(), PLUGIN_TIMEOUT)
        except asyncio.TimeoutError:
            raise self._failed(f"has not answered for {PLUGIN_TIMEOUT:g} s") from None
        finally:
            # Also after a timeout or a cancellation.
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()

    def _understood(self, printed: bytes) -> _Credential:
        try:
            credential = decode_json(printed, _PluginAnswer).status
        except DecodeError as error:
            raise self._failed(f"did not print an ExecCredential: {error}") from None
        certificate, key = credential.client_certificate_data, credential.client_key_data
        if certificate and key:
            self._present(certificate, key)
        elif not credential.token:
            raise self._failed("printed neither a token nor a certificate with its key")
        return credential

    def _present(self, certificate: str, key: str) -> None:
        """Use a client certificate from now on."""
        try:
            show_certificate(self._tls, certificate.encode(), key.encode())
        except OSError as error:
            raise self._failed(f"printed a certificate that cannot be used: {error}") from None

    def _failed(self, how: str) -> ConfigError:
        return ConfigError(f"{self} {how}")


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
