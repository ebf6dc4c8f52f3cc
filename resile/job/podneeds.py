"""What a sound job still lacks, or says twice, when its nodes are to be pods.

A job of one machine needs no image and its templates are never looked at, so a manifest is not
refused for these; the operator shows them as a condition instead. The API server's own rules for
pods are not repeated here: only what would be refused late, or not be noticed at all, because a
role's fields and its template are put together into one pod. Of a template that has not even the
shape to be put together with anything (``podshape``) only that is said. Templates hold anything at
all, so names are compared in lists: they may be of a kind that cannot be hashed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from resile.job.cluster import MasterSpec
from resile.job.errors import Problem
from resile.job.podshape import problem_at, template_shape_problems
from resile.job.quantity import parse_memory
from resile.job.role import RoleSpec
from resile.job.spec import ElasticJob
from resile.job.yamltext import Path

__all__ = [
    "ADDRESSES_PATH",
    "ADDRESSES_VOLUME",
    "MASTER_VOLUMES",
    "SHARED_MEMORY",
    "SHARED_MEMORY_PATH",
    "has_shared_memory",
    "kubernetes_problems",
    "main_container",
]

SHARED_MEMORY = "shared-memory"
"""The volume in memory that a node is given."""

SHARED_MEMORY_PATH = "/dev/shm"

ADDRESSES_VOLUME = "resile-addresses"
"""The volume with the addresses of all nodes, which nodes of a job with ports are given."""

ADDRESSES_PATH = "/etc/resile/addresses"
"""A folder: the kubelet replaces what is in it by replacing a link."""

MASTER_VOLUMES = {"store": "/var/lib/resile", "tmp": "/tmp", "tls": "/etc/resile/tls"}
"""What a master is given, and where each is mounted."""

_CONTAINER_LISTS = ("containers", "initContainers")
_MAIN: Path = ("spec", "containers", 0)


def kubernetes_problems(job: ElasticJob) -> list[Problem]:
    """Everything that keeps the job's nodes and master from becoming pods."""
    problems: list[Problem] = []
    for name, role in job.spec.roles.items():
        problems += _role_problems(role, ("spec", "roles", name))
    problems += _master_problems(job.spec.master, ("spec", "master"))
    return problems


def main_container(template: Mapping[str, Any]) -> dict[str, Any]:
    """The container of a pod template that the node itself runs in: the first; empty if none."""
    spec = template.get("spec")
    containers = spec.get("containers") if isinstance(spec, dict) else None
    first = containers[0] if isinstance(containers, list) and containers else None
    return first if isinstance(first, dict) else {}


def has_shared_memory(role: RoleSpec) -> bool:
    """Whether a node of the role is given a volume at /dev/shm: unless one of its own is mounted
    there, or none is wanted. The template must be of the right shape."""
    own = [*_template_mount_paths(role), *(mount.get("mountPath") for mount in role.volume_mounts)]
    return _wants_shared_memory(role) and SHARED_MEMORY_PATH not in own


def _role_problems(role: RoleSpec, path: Path) -> Iterator[Problem]:
    shape = list(template_shape_problems(role.template, (*path, "template")))
    yield from shape
    if not shape:  # else what follows would blame the role for its template
        yield from _names(role.template, (*path, "template"))
        why = "nodes that end are replaced, not restarted in place"
        yield from _restart_policy(role.template, (*path, "template"), only="Never", why=why)
        yield from _image(role, path)
        yield from _program(role, path)
        yield from _grace(role, path)
        yield from _volumes(role, path)
    if isinstance(role.priority, int) and role.priority != 0:
        message = (
            f"pods have no priority by number ({role.priority}): give the name of a PriorityClass, "
            "or high=1 if all nodes are to be high"
        )
        yield problem_at((*path, "priority"), message)


def _master_problems(master: MasterSpec, path: Path) -> Iterator[Problem]:
    template, path = master.template, (*path, "template")
    shape = list(template_shape_problems(template, path))
    yield from shape
    if not shape:
        yield from _names(template, path)
        why = "a master that ends is started again over its store"
        yield from _restart_policy(template, path, only="Always", why=why)
        if main_container(template).get("command"):
            message = "the operator says what a master runs; leave it out"
            yield problem_at((*path, *_MAIN, "command"), message)
        yield from _masters_volumes(template, path)


def _masters_volumes(template: Mapping[str, Any], path: Path) -> Iterator[Problem]:
    volumes, mounts = _spec(template).get("volumes"), main_container(template).get("volumeMounts")
    for at, volume in _numbered(volumes, (*path, "spec", "volumes")):
        if volume.get("name") in [*MASTER_VOLUMES]:
            message = "is what a volume of the master's own is called; take another name"
            yield problem_at((*at, "name"), message)
    for at, mount in _numbered(mounts, (*path, *_MAIN, "volumeMounts")):
        if mount.get("mountPath") in [*MASTER_VOLUMES.values()]:
            yield problem_at((*at, "mountPath"), "is where a volume of the master's own is mounted")


# --- a template for itself ------------------------------------------------------------------


def _names(template: Mapping[str, Any], path: Path) -> Iterator[Problem]:
    names: list[str] = []
    for key in _CONTAINER_LISTS:
        for n, container in enumerate(_spec(template).get(key) or ()):
            within, name = ("spec", key, n), container.get("name")
            if name is None and within != _MAIN:  # its name may be left to us
                message = "is missing: give the container a name"
                yield problem_at((*path, *within, "name"), message)
            elif name is not None and name in names:
                message = f"there are two containers called {name}"
                yield problem_at((*path, *within, "name"), message)
            names.append(name)


def _restart_policy(
    template: Mapping[str, Any], path: Path, *, only: str, why: str
) -> Iterator[Problem]:
    if _spec(template).get("restartPolicy") not in (None, only):
        yield problem_at((*path, "spec", "restartPolicy"), f"must be {only} or left out: {why}")


def _spec(template: Mapping[str, Any]) -> Mapping[str, Any]:
    return template.get("spec") or {}


# --- a role beside its template -------------------------------------------------------------


def _image(role: RoleSpec, path: Path) -> Iterator[Problem]:
    templates = main_container(role.template).get("image")
    if not role.image and not templates:
        message = "is missing: a pod needs one, here or in the first container of the template"
        yield problem_at((*path, "image"), message)
    elif role.image and templates and role.image != templates:
        message = f"the role's image is {role.image}; give only one of the two"
        yield problem_at((*path, "template", *_MAIN, "image"), message)


def _program(role: RoleSpec, path: Path) -> Iterator[Problem]:
    container = main_container(role.template)
    written = {"command": role.command, "script": role.script, "module": role.module}
    given = next((name for name, value in written.items() if value), None)
    for key in ("command", "args"):
        rival = given or ("args" if key == "args" and role.args else None)
        if rival and container.get(key):
            message = f"the role's {rival} says what a node runs; give only one of the two"
            yield problem_at((*path, "template", *_MAIN, key), message)


def _grace(role: RoleSpec, path: Path) -> Iterator[Problem]:
    """The controller stops nodes with the role's, so a pod cannot have another. Whether its author
    wrote the role's or left it at its default cannot be told."""
    grace = role.termination_grace_period_seconds
    if _spec(role.template).get("terminationGracePeriodSeconds") not in (None, math.ceil(grace)):
        message = f"the role's is {grace:g}: give it as terminationGracePeriodSeconds of the role"
        yield problem_at((*path, "template", "spec", "terminationGracePeriodSeconds"), message)


def _volumes(role: RoleSpec, path: Path) -> Iterator[Problem]:
    names: list[Any] = []
    for at, volume in (
        *_numbered(_spec(role.template).get("volumes"), (*path, "template", "spec", "volumes")),
        *_numbered(role.volumes, (*path, "volumes")),
    ):
        name = volume.get("name")
        if not name:
            yield problem_at((*at, "name"), "is missing: give the volume a name")
        elif name in names:
            yield problem_at((*at, "name"), f"there are two volumes called {name}")
        elif name == ADDRESSES_VOLUME:
            message = "is what the volume with the nodes' addresses is called; take another name"
            yield problem_at((*at, "name"), message)
        elif name == SHARED_MEMORY and has_shared_memory(role):
            message = f"is what the volume at {SHARED_MEMORY_PATH} is called; take another name"
            yield problem_at((*at, "name"), message)
        names.append(name)
    yield from _mounts(role, path, volumes=names)


def _numbered(items: Any, path: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    for n, item in enumerate(items or ()):
        yield (*path, n), item


def _mounts(role: RoleSpec, path: Path, *, volumes: list[Any]) -> Iterator[Problem]:
    taken = _template_mount_paths(role)
    for at, mount in _numbered(role.volume_mounts, (*path, "volumeMounts")):
        yield from _mount(mount, at, volumes=volumes, taken=taken)
        taken.append(mount.get("mountPath"))
    named = role.shared_memory is not None and _wants_shared_memory(role)
    if named and SHARED_MEMORY_PATH in taken:
        message = f"a volume is mounted at {SHARED_MEMORY_PATH} already; give only one of the two"
        yield problem_at((*path, "sharedMemory"), message)


def _mount(
    mount: Mapping[str, Any], path: Path, *, volumes: list[Any], taken: list[Any]
) -> Iterator[Problem]:
    name, place = mount.get("name"), mount.get("mountPath")
    if not name:
        yield problem_at((*path, "name"), "is missing: give the name of a volume")
    elif name not in volumes:
        yield problem_at((*path, "name"), f"there is no volume called {name}")
    if not place:
        yield problem_at((*path, "mountPath"), "is missing: give the place to mount it at")
    elif place in taken:
        yield problem_at((*path, "mountPath"), f"something is mounted at {place} already")


def _template_mount_paths(role: RoleSpec) -> list[Any]:
    mounts = main_container(role.template).get("volumeMounts") or ()
    return [mount.get("mountPath") for mount in mounts]


def _wants_shared_memory(role: RoleSpec) -> bool:
    return role.shared_memory is None or parse_memory(role.shared_memory).bytes > 0
