"""The environment variables that tell a job's nodes where their master and their ledger are. Pure.

All nodes connect to the job's master, each in its group (see :class:`~resile.control.actions
.StartNode`): the rounds of different groups are independent. A plain command gets the master's
address too, in case it needs it. Only the main group writes the job's ledger: an evaluator's epochs
are not part of the training.
"""

from __future__ import annotations

from pathlib import Path

from resile.job.spec.job import JobSpec
from resile.launch.master_process import KEPT_VARIABLE, conf_text
from resile.ledger import FOLDER_VARIABLE
from resile.wire.endpoint import Endpoint

__all__ = ["node_environments"]


def node_environments(
    job: str, spec: JobSpec, *, master: Endpoint, ledger: Path | None = None
) -> dict[str, dict[str, str]]:
    """Return the variables of the nodes of each role. ``ledger``: None leaves it to the environment
    that `up` was started in."""
    meeting = {"PET_RDZV_ENDPOINT": str(master), "PET_RDZV_ID": job, KEPT_VARIABLE: "1"}
    writing = {} if ledger is None else {FOLDER_VARIABLE: str(ledger)}
    return {
        role: {
            **meeting,
            **_timeouts(spec, role),
            **(writing if role in spec.training_roles() else {}),
        }
        for role in spec.roles
    }


def _timeouts(spec: JobSpec, role: str) -> dict[str, str]:
    """Return the rendezvous settings that all nodes of a group share; a plain command has none."""
    group = spec.group_of(role)
    if group is None and not (spec.roles[role].script or spec.roles[role].module):
        return {}
    elasticity = spec.solo_elasticity() if group is None else spec.elasticity(group)
    return {"PET_RDZV_CONF": conf_text(elasticity)}
