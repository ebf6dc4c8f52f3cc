"""The settings of an operator, with their defaults."""

from __future__ import annotations

from dataclasses import dataclass

from resile.control.policy import DEFAULT_POLICY, Policy
from resile.platform.kubernetes.kinds import Key
from resile.wire.endpoint import Endpoint

__all__ = ["OperatorOptions", "OperatorSettings"]


@dataclass(frozen=True, kw_only=True)
class OperatorSettings:
    """The behaviour of one operator."""

    namespace: str | None = None
    """The only namespace whose jobs are reconciled; None: all namespaces."""

    workers: int = 8
    """Jobs that are reconciled concurrently: mostly they wait for the API server."""

    refresh_seconds: float = 10.0
    """Interval at which a job's step and throughput are updated in its status. Every write goes to
    all watchers, so this is not a live view."""

    retry_seconds: float = 5.0
    """Interval at which a pod that the API server rejected is retried: quota that a user has freed
    should be used within the 10 s in which they look for it."""

    master_patience: float = 2.0
    """Timeout for the master's answer when a job may be over."""

    policy: Policy = DEFAULT_POLICY


@dataclass(frozen=True, kw_only=True)
class OperatorOptions:
    """The cluster to connect to, and how this process runs."""

    settings: OperatorSettings
    listen: Endpoint
    identity: str
    image: str | None = None
    """The image of masters; None: that of ``pod``."""

    pod: Key | None = None
    """The operator's own pod, if it runs in one."""

    kubeconfig: str | None = None
    context: str | None = None
    elect: bool = True
    lease_namespace: str | None = None
