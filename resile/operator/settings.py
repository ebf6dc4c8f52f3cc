"""Everything an operator is told when it starts, with what it takes if nothing is said."""

from __future__ import annotations

from dataclasses import dataclass

from resile.control.policy import DEFAULT_POLICY, Policy

__all__ = ["OperatorSettings"]


@dataclass(frozen=True, kw_only=True)
class OperatorSettings:
    """How one operator works."""

    namespace: str | None = None
    """Looks after the jobs of one namespace only; None: of all."""

    workers: int = 8
    """Jobs looked at at the same time: mostly they wait for the API server."""

    refresh_seconds: float = 10.0
    """How often a job's step and throughput are brought up to date in its status. Every write goes
    to all who watch, so it is no live view."""

    retry_seconds: float = 5.0
    """A pod that the API server refused is offered again so often: room that a person made should
    be used within the 10 s in which they look for it."""

    master_patience: float = 2.0
    """How long a job that may be over waits for its master's word on it."""

    policy: Policy = DEFAULT_POLICY
