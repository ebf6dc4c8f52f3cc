"""The process that a node of a role runs.

``command`` is used unchanged. The shorthand ``script`` or ``module`` becomes a `resile run` with
flags for what concerns the whole job: sizes, workers per node, restarts. The platform adds the
master's address, the token and the node's own rank as environment variables.
"""

from __future__ import annotations

from collections.abc import Sequence

from resile.job.role import RoleSpec
from resile.job.spec import JobSpec

__all__ = ["LAUNCHER", "node_command"]

LAUNCHER = ("resile", "run")


def node_command(
    spec: JobSpec, role_name: str, *, launcher: Sequence[str] = LAUNCHER
) -> tuple[str, ...]:
    """The argv of a node; empty if the container image decides."""
    role = spec.roles[role_name]
    if role.script is None and role.module is None:
        return (*role.command, *role.args)
    return (*launcher, *_run_flags(spec, role_name), *_program(role), *role.args)


def _run_flags(spec: JobSpec, role_name: str) -> list[str]:
    role = spec.roles[role_name]
    group = spec.group_of(role_name)
    elasticity = spec.solo_elasticity() if group is None else spec.elasticity(group)
    flags = [
        f"--nnodes={elasticity.min_nodes}:{elasticity.max_nodes}",
        f"--nproc-per-node={role.procs_per_node}",
        f"--max-restarts={elasticity.max_restarts}",
        f"--role={role_name}",
    ]
    if elasticity.node_unit > 1:
        flags.append(f"--node-unit={elasticity.node_unit}")
    return flags


def _program(role: RoleSpec) -> tuple[str, ...]:
    if role.module is not None:
        return ("-m", role.module)
    return (role.script,) if role.script is not None else ()
