"""Which sizes a job's roles may be asked to have: the same for a command and for a script. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from resile.job.spec import JobSpec
from resile.master.board import WrongSize, check_size

__all__ = ["wrong_size"]


def wrong_size(spec: JobSpec, sizes: Mapping[str, int]) -> str:
    """What is wrong with the first size that cannot be, in a sentence; empty if all can."""
    for role, size in sizes.items():
        if role not in spec.roles:
            return f"there is no role '{role}'; there are {', '.join(spec.roles)}"
        fixed = spec.roles[role].replicas
        if isinstance(fixed, int) and size != fixed:
            return (
                f"role {role} has {fixed} node{'' if fixed == 1 else 's'}, always; give its "
                "replicas a min and a max in the manifest to have it scaled"
            )
        try:
            check_size(role, spec.roles[role], size)
        except WrongSize as error:
            return str(error)
    return ""
