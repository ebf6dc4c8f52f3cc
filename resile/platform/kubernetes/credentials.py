"""Credential plugins (``exec`` in a kubeconfig): programs that print credentials.

They have a timeout, and their stderr and prompts reach the user: a plugin may open a browser, or
ask for a code.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timezone
from typing import IO

import msgspec

from resile.decoding import DecodeError, decode_json
from resile.platform.kubernetes.entries import PluginEntry
from resile.platform.kubernetes.errors import ConfigError
from resile.platform.kubernetes.tls import show_certificate

__all__ = ["PluginAuth"]

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
        told = {variable.name: variable.value for variable in plugin.env or ()}
        told["KUBERNETES_EXEC_INFO"] = msgspec.json.encode(info).decode()
        environment = {**os.environ, **told}
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
