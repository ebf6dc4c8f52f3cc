"""Find and read the kubeconfig as kubectl does: the cluster and the user of a context.

kubectl merges all files in ``$KUBECONFIG``, or else reads ``~/.kube/config``; in a pod without
either the service account is used. Only the entries of the chosen context are validated: errors
in others do not matter yet, and unknown keys are ignored. Whatever is wrong is a
:class:`ConfigError` whose message says what would be right.

The loader of kubernetes_asyncio (36.1) was the alternative. It does less than kubectl, or
differs:

- of several files the last one's ``current-context`` is used, in kubectl the first's;
- ``as``, ``as-uid``, ``as-groups`` and ``as-user-extra`` are ignored: requests are sent as the user
  themselves, with all their permissions;
- a plugin has no timeout and runs even if there is a token, its prompts and errors are not shown,
  and it is not run again when its token is rejected;
- a ``tokenFile`` is read once, even if it changes later;
- users' keys are in temporary files until the process ends;
- a user that a context names and the file lacks is silently ignored;
- it has a module for each of Kubernetes' types, 859 of them, and takes a second to import them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec
import yaml

from resile.decoding import DecodeError, convert
from resile.kube.errors import ConfigError

__all__ = [
    "ClusterConfig",
    "ClusterEntry",
    "ContextEntry",
    "DEFAULT_NAMESPACE",
    "PluginEntry",
    "UserEntry",
    "Variable",
    "default_files",
    "existing_files",
    "find_cluster",
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
    """An API server and one user of it, as a context or a pod's service account names them."""

    context_name: str
    cluster: ClusterEntry
    user: UserEntry
    namespace: str = DEFAULT_NAMESPACE
    file: Path | None = None
    """The kubeconfig that defines the cluster; None in a pod."""


SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"

T = TypeVar("T")


def find_cluster(
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    service_account: str = SERVICE_ACCOUNT,
) -> ClusterConfig:
    """Return the cluster that kubectl would use with the same file and context."""
    if kubeconfig is not None:
        return _chosen(_read(_expanded(kubeconfig)), context, where=kubeconfig)
    candidates = default_files()
    files = existing_files(candidates)
    if files:
        where = os.pathsep.join(map(str, files))
        return _chosen(_merged([_read(path) for path in files]), context, where=where)
    if context is not None:
        raise ConfigError(f"no context {context!r}: there is no kubeconfig at {_or(candidates)}")
    return _inside_the_cluster(service_account, candidates)


def default_files() -> Sequence[Path]:
    """Return the files that kubectl would try; raises ConfigError for an invalid path."""
    named = [path for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    return [_expanded(path) for path in named or ["~/.kube/config"]]


def existing_files(paths: Iterable[Path]) -> Sequence[Path]:
    """Return the paths that exist; raises ConfigError for those that cannot be checked.

    A folder counts, so that reading it reports the mistake; a device (/dev/null) does not: it
    stands for no file.
    """
    return [path for path in paths if _is_there(path)]


def _expanded(path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise ConfigError(
            f"the kubeconfig {path} cannot be found: there is no user with that home folder"
        ) from None


def _is_there(path: Path) -> bool:
    try:
        path.stat()
    except FileNotFoundError:
        return False
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None
    return not path.is_char_device()


def _unreadable(path: Path, error: Exception) -> ConfigError:
    why = error.strerror if isinstance(error, OSError) else error
    return ConfigError(f"the kubeconfig {path} cannot be read: {why}")


def _inside_the_cluster(service_account: str, candidates: Sequence[Path]) -> ClusterConfig:
    folder = Path(service_account)
    token = folder / "token"
    host, port = (os.environ.get(f"KUBERNETES_SERVICE_{part}") for part in ("HOST", "PORT"))
    try:
        if not (host and port and token.is_file()):
            raise ConfigError(
                f"no cluster is configured: there is no kubeconfig at {_or(candidates)}, and this "
                "is not a pod with a service account; set $KUBECONFIG to the file of your cluster"
            )
        file = folder / "namespace"
        namespace = file.read_text().strip() if file.exists() else ""
    except (OSError, ValueError) as error:
        raise ConfigError(f"the pod's service account cannot be read: {error}") from None
    return ClusterConfig(
        "the pod's service account",
        ClusterEntry(
            server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
            certificate_authority=str(folder / "ca.crt"),
        ),
        UserEntry(token_file=str(token)),
        namespace=namespace or DEFAULT_NAMESPACE,
    )


# --- the files ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Entry:
    """An entry of a file's clusters, users or contexts, not validated yet."""

    file: Path
    kind: str
    name: str
    written: Mapping[str, Any]

    def read(self, type_: type[T]) -> T:
        """Validate and convert the entry; an empty one has all defaults."""
        if self.kind not in self.written:
            raise self.mistake(f"lacks {self.kind!r}")
        try:
            return convert(self.written[self.kind] or {}, type_)
        except DecodeError as error:
            raise self.mistake(f"is wrong: {error}") from None

    def mistake(self, what: str) -> ConfigError:
        where = f"its {self.kind} {self.name!r}"
        return ConfigError(f"{self.file} is not a valid kubeconfig: {where} {what}")

    def anchored(self, path: str | None) -> str | None:
        """Make a path absolute: paths in a file are relative to its folder."""
        return str(self.file.absolute().parent / path) if path else None


@dataclass(frozen=True)
class _Written:
    """The content of one file, or of several merged ones."""

    current: str
    clusters: Mapping[str, _Entry]
    users: Mapping[str, _Entry]
    contexts: Mapping[str, _Entry]


def _read(path: Path) -> _Written:
    try:
        content = yaml.safe_load(path.read_text())
    except FileNotFoundError:
        raise ConfigError(f"there is no kubeconfig at {path}") from None
    except OSError as error:
        raise _unreadable(path, error) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        why = " ".join(str(error).split())
        raise ConfigError(f"{path} is not a valid kubeconfig: {why}") from None
    if content is None:
        content = {}
    if not isinstance(content, Mapping):
        raise ConfigError(
            f"{path} is not a valid kubeconfig: there should be clusters, users and contexts, "
            f"and there is {'a text' if isinstance(content, str) else 'something else'}"
        )
    return _Written(
        str(content.get("current-context") or ""),
        clusters=_entries(path, content.get("clusters"), kind="cluster"),
        users=_entries(path, content.get("users"), kind="user"),
        contexts=_entries(path, content.get("contexts"), kind="context"),
    )


def _entries(path: Path, listed: Any, *, kind: str) -> Mapping[str, _Entry]:
    if not isinstance(listed or [], list):
        raise ConfigError(f"{path} is not a valid kubeconfig: its {kind}s are not a list")
    found: dict[str, _Entry] = {}
    for number, written in enumerate(listed or [], start=1):
        if not isinstance(written, Mapping) or not written.get("name"):
            raise ConfigError(
                f"{path} is not a valid kubeconfig: its {kind} number {number} has no name"
            )
        name = str(written["name"])
        found[name] = _Entry(path, kind, name, written)
    return found


def _merged(files: Sequence[_Written]) -> _Written:
    """Merge files: of two entries with one name the earlier file's is used."""
    later_first = files[::-1]
    return _Written(
        next((file.current for file in files if file.current), ""),
        clusters={name: entry for file in later_first for name, entry in file.clusters.items()},
        users={name: entry for file in later_first for name, entry in file.users.items()},
        contexts={name: entry for file in later_first for name, entry in file.contexts.items()},
    )


# --- the chosen context ---------------------------------------------------------------------


def _chosen(written: _Written, context: str | None, *, where: str) -> ClusterConfig:
    name = context or written.current
    known = ", ".join(sorted(written.contexts)) or "none"
    if not name:
        raise ConfigError(
            f"{where} has no current context; choose one of these: {known} "
            "(`kubectl config use-context` makes it permanent)"
        )
    if name not in written.contexts:
        raise ConfigError(f"{where} has no context {name!r}; it has: {known}")
    chosen = written.contexts[name].read(ContextEntry)
    if chosen.cluster not in written.clusters:
        raise ConfigError(f"{where} lacks the cluster {chosen.cluster!r} of its context {name!r}")
    if chosen.user and chosen.user not in written.users:
        raise ConfigError(f"{where} lacks the user {chosen.user!r} of its context {name!r}")
    entry = written.clusters[chosen.cluster]
    return ClusterConfig(
        name,
        _cluster(entry),
        _user(written.users[chosen.user]) if chosen.user else UserEntry(),
        namespace=chosen.namespace or DEFAULT_NAMESPACE,
        file=entry.file,
    )


def _cluster(entry: _Entry) -> ClusterEntry:
    cluster = entry.read(ClusterEntry)
    if not cluster.server:
        raise entry.mistake("lacks 'server', the address of its API server")
    if not _is_address(cluster.server):
        raise entry.mistake(
            f"has the 'server' {cluster.server!r}, which is not a URL such as https://host:6443"
        )
    return msgspec.structs.replace(
        cluster, certificate_authority=entry.anchored(cluster.certificate_authority)
    )


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _user(entry: _Entry) -> UserEntry:
    user = entry.read(UserEntry)
    certificate, key = (
        user.client_certificate_data or user.client_certificate,
        user.client_key_data or user.client_key,
    )
    if certificate and not key:
        raise entry.mistake("has a client certificate and lacks its 'client-key'")
    if not user.as_user and (user.as_uid or user.as_groups or user.as_user_extra):
        raise entry.mistake("lacks 'as', the user to impersonate, but has other 'as-' fields")
    others = (user.token, user.token_file, user.exec, user.username and user.password)
    if user.auth_provider and not any(others):
        raise ConfigError(
            f"the 'auth-provider' of user {entry.name!r} in {entry.file} is not supported; "
            "its successor, a credential plugin ('exec'), is"
        )
    plugin = user.exec
    if plugin and os.sep in plugin.command:
        plugin = msgspec.structs.replace(plugin, command=entry.anchored(plugin.command))
    return msgspec.structs.replace(
        user,
        client_certificate=entry.anchored(user.client_certificate),
        client_key=entry.anchored(user.client_key),
        token_file=entry.anchored(user.token_file),
        exec=plugin,
    )


def _or(paths: Sequence[Path]) -> str:
    return " or ".join(map(str, paths))
