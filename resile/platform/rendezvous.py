"""Where each role's nodes meet, as the environment variables their agents read, and where they
write down what they train. Pure.

Training roles meet at the job's master, which `up` keeps alive. A helper with a script of its own
(an evaluator) has nothing to agree on with them: its nodes meet at an address of their own, where
the first of them starts a master. A plain command finds the job's master too, should it want it.
Only those who train together share a ledger: an evaluator's epochs are not the training's.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from resile.job.spec import JobSpec
from resile.ledger import FOLDER_VARIABLE
from resile.wire.endpoint import Endpoint
from resile.wire.launching import KEPT_VARIABLE, conf_text

__all__ = ["node_environments", "roles_apart"]


def roles_apart(spec: JobSpec) -> tuple[str, ...]:
    """The roles that run a script and do not train with the others."""
    training = spec.training_roles()
    return tuple(
        name
        for name, role in spec.roles.items()
        if (role.script or role.module) and name not in training
    )


def node_environments(
    job: str,
    spec: JobSpec,
    *,
    master: Endpoint,
    apart: Mapping[str, Endpoint],
    ledger: Path | None = None,
) -> dict[str, dict[str, str]]:
    """What the nodes of each role are told. ``apart``: the addresses of :func:`roles_apart`;
    ``ledger``: None leaves it to the environment that `up` was started in."""
    meeting = {"PET_RDZV_ENDPOINT": str(master), "PET_RDZV_ID": job, KEPT_VARIABLE: "1"}
    writing = {} if ledger is None else {FOLDER_VARIABLE: str(ledger)}
    told = dict.fromkeys(spec.roles, meeting)
    for role in spec.training_roles():
        told[role] = {**meeting, "PET_RDZV_CONF": conf_text(spec.elasticity()), **writing}
    for role, endpoint in apart.items():
        own = {"PET_RDZV_ENDPOINT": str(endpoint), "PET_RDZV_ID": f"{job}-{role}"}
        told[role] = {**own, KEPT_VARIABLE: ""}
    return told
