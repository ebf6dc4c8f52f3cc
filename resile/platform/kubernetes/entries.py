"""The entries of a kubeconfig, and the cluster and user that a context combines.

Only what a client needs: unknown keys are ignored, as in kubectl. Paths are absolute once
:mod:`resile.platform.kubernetes.kubeconfig` has read them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

__all__ = [
    "DEFAULT_NAMESPACE",
    "ClusterConfig",
    "ClusterEntry",
    "ContextEntry",
    "PluginEntry",
    "UserEntry",
    "Variable",
]

DEFAULT_NAMESPACE = "default"


class ContextEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A context: a cluster, and a user of it."""

    cluster: str
    user: str | None = None
    namespace: str | None = None


class ClusterEntry(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A cluster: the address of its API server, and how to verify it."""

    server: str = ""
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool = False
    tls_server_name: str | None = None
    proxy_url: str | None = None


class Variable(msgspec.Struct, frozen=True):
    """A variable of a credential plugin's environment."""

    name: str
    value: str


class PluginEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A credential plugin: a program that prints credentials."""

    api_version: str
    command: str
    args: list[str] | None = None
    env: list[Variable] | None = None
    install_hint: str | None = None
    interactive_mode: str | None = None


class UserEntry(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A user: their credentials, and the user they impersonate."""

    token: str | None = None
    token_file: str | None = msgspec.field(name="tokenFile", default=None)
    username: str | None = None
    password: str | None = None
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    exec: PluginEntry | None = None
    auth_provider: dict[str, Any] | None = None
    as_user: str | None = msgspec.field(name="as", default=None)
    as_uid: str | None = None
    as_groups: list[str] | None = None
    as_user_extra: dict[str, list[str]] | None = None


@dataclass(frozen=True)
class ClusterConfig:
    """One API server and one user of it, as a context or a pod's service account names them."""

    context_name: str
    cluster: ClusterEntry
    user: UserEntry
    namespace: str = DEFAULT_NAMESPACE
    file: Path | None = None
    """The kubeconfig that defines the cluster; None in a pod."""
