"""Which cluster, and as whom: the kubeconfig, found and read as kubectl does it.

lightkube reads one file and looks inside the cluster first; kubectl merges all files that
``$KUBECONFIG`` names, then tries ``~/.kube/config``, and takes the pod's service account last.
People expect the latter, so the finding and merging is here. What the found entries mean
(certificates, tokens, credential plugins) is lightkube's to know. Whatever is wrong with the
configuration is a :class:`ConfigError` whose sentence says what would be right.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml
from lightkube.config.kubeconfig import SERVICE_ACCOUNT, KubeConfig, SingleConfig
from lightkube.config.models import NameValue, User, UserExec
from lightkube.core.exceptions import ConfigError as LightkubeConfigError

from resile.platform.kubernetes.errors import ConfigError

__all__ = ["find_cluster"]

PLUGIN_API = "client.authentication.k8s.io"

NO_KUBECONFIG = (AttributeError, TypeError, ValueError)
"""What comes of reading a file that has lists and mappings where others should be."""


def find_cluster(
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    service_account: str = SERVICE_ACCOUNT,
) -> SingleConfig:
    """The cluster that kubectl would talk to if it were given the same file and context."""
    if kubeconfig is not None:
        return _chosen(_read(Path(kubeconfig).expanduser()), context, where=kubeconfig)
    candidates = _usual_files()
    files = [path for path in candidates if path.is_file()]
    if files:
        where = os.pathsep.join(map(str, files))
        return _chosen(_merged([_read(path) for path in files]), context, where=where)
    if context is not None:
        raise ConfigError(f"no context {context!r}: there is no kubeconfig at {_or(candidates)}")
    return _inside_the_cluster(service_account, candidates)


def _usual_files() -> Sequence[Path]:
    named = [path for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    return [Path(path).expanduser() for path in named or ["~/.kube/config"]]


def _inside_the_cluster(service_account: str, candidates: Sequence[Path]) -> SingleConfig:
    try:
        config = KubeConfig.from_service_account(service_account)
    except (LightkubeConfigError, KeyError):
        raise ConfigError(
            f"no cluster is configured: there is no kubeconfig at {_or(candidates)}, and this is "
            "no pod with a service account; set $KUBECONFIG to the file of your cluster"
        ) from None
    return _chosen(config, None, where="the service account")


def _read(path: Path) -> KubeConfig:
    """One file. Paths in it are relative to it, wherever the process stands."""
    try:
        written = yaml.safe_load(path.read_text()) or {}
        given = {key: value for key, value in written.items() if value is not None}
        config = KubeConfig.from_dict({"clusters": [], "contexts": [], **given})
    except FileNotFoundError:
        raise ConfigError(f"there is no kubeconfig at {path}") from None
    except OSError as error:
        raise ConfigError(f"the kubeconfig {path} cannot be read: {error.strerror}") from None
    except KeyError as error:
        raise ConfigError(f"{path} is no kubeconfig: an entry lacks {error}") from None
    except (
        yaml.YAMLError,
        msgspec.ValidationError,
        ValueError,
        TypeError,
        AttributeError,
    ) as error:
        raise ConfigError(f"{path} is no kubeconfig: {error}") from None
    folder = path.absolute().parent
    for cluster in config.clusters.values():
        cluster.certificate_auth = _anchored(cluster.certificate_auth, folder)
    for user in config.users.values():
        user.client_cert = _anchored(user.client_cert, folder)
        user.client_key = _anchored(user.client_key, folder)
        user.token_file = _anchored(user.token_file, folder)
        user.exec = _plugin(user.exec, folder) if user.exec else None
    return config


def _anchored(path: str | None, folder: Path) -> str | None:
    return str(folder / path) if path else None


def _plugin(plugin: UserExec, folder: Path) -> UserExec:
    """The credential plugin as lightkube can run it: it knows no v1, and tells it no version.

    The v1 of the protocol differs from v1beta1 only in that the plugin may be asked for input,
    and a plugin decides by $KUBERNETES_EXEC_INFO in which version it answers.
    """
    info: dict[str, Any] = {
        "apiVersion": plugin.apiVersion,
        "kind": "ExecCredential",
        "spec": {"interactive": False},
    }
    told = NameValue(name="KUBERNETES_EXEC_INFO", value=msgspec.json.encode(info).decode())
    of_v1 = plugin.apiVersion == f"{PLUGIN_API}/v1"
    return msgspec.structs.replace(
        plugin,
        apiVersion=f"{PLUGIN_API}/v1beta1" if of_v1 else plugin.apiVersion,
        command=str(folder / plugin.command) if os.sep in plugin.command else plugin.command,
        env=[told, *(plugin.env or [])],
    )


def _merged(configs: Sequence[KubeConfig]) -> KubeConfig:
    """All files as one: of two entries with one name the earlier file's counts."""
    merged = KubeConfig(clusters={}, contexts={}, users={})
    for config in reversed(configs):
        merged.clusters.update(config.clusters)
        merged.contexts.update(config.contexts)
        merged.users.update(config.users)
        merged.current_context = config.current_context or merged.current_context
    return merged


def _chosen(config: KubeConfig, context: str | None, *, where: str) -> SingleConfig:
    name = context or config.current_context
    known = ", ".join(sorted(config.contexts)) or "none at all"
    if not name:
        raise ConfigError(
            f"{where} has no current context; name one of these: {known} "
            "(`kubectl config use-context` sets it for good)"
        )
    chosen = config.contexts.get(name)
    if chosen is None:
        raise ConfigError(f"{where} has no context {name!r}; it has: {known}")
    if chosen.cluster not in config.clusters:
        raise ConfigError(f"{where} lacks the cluster {chosen.cluster!r} of its context {name!r}")
    if chosen.user and chosen.user not in config.users:
        raise ConfigError(f"{where} lacks the user {chosen.user!r} of its context {name!r}")
    user = config.users[chosen.user] if chosen.user else User()
    return SingleConfig(name, chosen, config.clusters[chosen.cluster], user=user)


def _or(paths: Sequence[Path]) -> str:
    return " or ".join(map(str, paths))
