"""Checks that a valid job can become pods: what is missing, given twice, or of the wrong shape.

On one machine a job needs no image and its templates are not read, so a manifest is not refused
for these problems; the operator shows them as a condition instead. The API server's own rules for
pods are not repeated here, only what would be refused late or go unnoticed because a role's fields
and its template are merged into one pod.

A manifest accepts any template, so its shape is checked first: every field that is read, extended
or merged must have the right type. If it does not, only that is reported. Absent and null are the
same, as in Kubernetes. Templates may hold anything, so names are compared in lists: they may be of
a type that cannot be hashed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from resile.job.errors import Problem, QuantityError
from resile.job.manifest.yaml_text import FieldPath, dotted
from resile.job.spec.cluster import MasterSpec
from resile.job.spec.job import ElasticJob
from resile.job.spec.quantity import parse_memory, parse_quantity
from resile.job.spec.role import RoleSpec

__all__ = [
    "ADDRESSES_PATH",
    "ADDRESSES_VOLUME",
    "MASTER_VOLUMES",
    "SHARED_MEMORY",
    "SHARED_MEMORY_PATH",
    "has_shared_memory",
    "kubernetes_problems",
    "main_container",
    "problem_at",
    "template_shape_problems",
]


Shape: TypeAlias = Callable[[Any, FieldPath], Iterator[Problem]]
"""A check that yields the problems of the value at a path."""


def template_shape_problems(template: Mapping[str, Any], path: FieldPath) -> Iterator[Problem]:
    """Find everything in a template that a pod cannot be built from."""
    for key in template:
        if key not in _PARTS:
            known = " and ".join(_PARTS)
            yield problem_at((*path, key), f"is not part of a pod template, which has {known}")
    yield from _mapping(_PARTS)(template, path)


def problem_at(path: FieldPath, message: str) -> Problem:
    """A problem of the value at ``path``."""
    return Problem(dotted(path), message)


# --- kinds of shape -------------------------------------------------------------------------


def _mapping(parts: Mapping[str, Shape]) -> Shape:
    def check(value: Any, path: FieldPath) -> Iterator[Problem]:
        if isinstance(value, dict):
            for name, shape in parts.items():
                yield from shape(value.get(name), (*path, name))
        elif value is not None:
            yield problem_at(path, "expected a mapping")

    return check


def _mappings(parts: Mapping[str, Shape] | None = None) -> Shape:
    """A list of mappings, each with ``parts``."""
    each = _mapping(parts or {})

    def check(value: Any, path: FieldPath) -> Iterator[Problem]:
        if isinstance(value, list) and all(isinstance(item, dict) for item in value):
            for n, item in enumerate(value):
                yield from each(item, (*path, n))
        elif value is not None:
            yield problem_at(path, "expected a list of mappings")

    return check


def _texts(value: Any, path: FieldPath) -> Iterator[Problem]:
    if isinstance(value, dict):
        for name, text in value.items():
            yield from _text(text, (*path, name))
    elif value is not None:
        yield problem_at(path, "expected a mapping of text to text")


def _text(value: Any, path: FieldPath) -> Iterator[Problem]:
    if not isinstance(value, str | None):
        yield problem_at(path, f"expected text, found {value!r}; quote it if it is meant as text")


def _named(value: Any, path: FieldPath) -> Iterator[Problem]:
    if value in (None, ""):
        yield problem_at(path, "is missing: give the variable a name")
    yield from _text(value, path)


def _amounts(value: Any, path: FieldPath) -> Iterator[Problem]:
    if not isinstance(value, dict | None):
        yield problem_at(path, "expected a mapping of resources to amounts, such as memory: 4Gi")
        return
    for name, amount in (value or {}).items():
        try:
            parse_quantity(amount)
        except QuantityError as error:
            yield problem_at((*path, name), str(error))


def _containers(value: Any, path: FieldPath) -> Iterator[Problem]:
    """Only the first, in which the node or the master runs, is merged with other fields."""
    problems = list(_mappings({"name": _text, "volumeMounts": _mappings()})(value, path))
    yield from problems
    if not problems and value:
        yield from _mapping(_MAIN_CONTAINER)(value[0], (*path, 0))


# --- the shape of a pod ---------------------------------------------------------------------

_MAIN_CONTAINER: dict[str, Shape] = {
    "image": _text,
    "env": _mappings({"name": _named}),
    "ports": _mappings({"name": _text}),
    "resources": _mapping({"requests": _amounts, "limits": _amounts}),
}
_TERM = {"matchFields": _mappings(), "matchExpressions": _mappings()}
_REQUIRED = _mapping({"nodeSelectorTerms": _mappings(_TERM)})
_MACHINES = _mapping({"requiredDuringSchedulingIgnoredDuringExecution": _REQUIRED})
_POD: dict[str, Shape] = {
    "containers": _containers,
    "initContainers": _mappings({"name": _text, "volumeMounts": _mappings()}),
    "volumes": _mappings(),
    "tolerations": _mappings(),
    "imagePullSecrets": _mappings({"name": _text}),
    "schedulingGates": _mappings(),
    "nodeSelector": _texts,
    "hostname": _text,
    "subdomain": _text,
    "affinity": _mapping({"nodeAffinity": _MACHINES}),
}
_PARTS: dict[str, Shape] = {
    "metadata": _mapping({"labels": _texts, "annotations": _texts}),
    "spec": _mapping(_POD),
}


SHARED_MEMORY = "shared-memory"
"""The name of a node's volume in memory."""

SHARED_MEMORY_PATH = "/dev/shm"

ADDRESSES_VOLUME = "resile-addresses"
"""The name of the volume with the addresses of all nodes, in jobs with ports."""

ADDRESSES_PATH = "/etc/resile/addresses"
"""A directory: the kubelet updates its contents by replacing a symbolic link."""

MASTER_VOLUMES = {"store": "/var/lib/resile", "tmp": "/tmp", "tls": "/etc/resile/tls"}
"""The volumes of a master, and where each is mounted."""

_CONTAINER_LISTS = ("containers", "initContainers")
_MAIN: FieldPath = ("spec", "containers", 0)


def kubernetes_problems(job: ElasticJob) -> list[Problem]:
    """Find everything that keeps the job's nodes and master from becoming pods."""
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
    """Whether a node of the role gets a volume at /dev/shm: unless it mounts one of its own there,
    or the manifest turns it off. The template must be of the right shape."""
    own = [*_template_mount_paths(role), *(mount.get("mountPath") for mount in role.volume_mounts)]
    return _wants_shared_memory(role) and SHARED_MEMORY_PATH not in own


def _role_problems(role: RoleSpec, path: FieldPath) -> Iterator[Problem]:
    shape = list(template_shape_problems(role.template, (*path, "template")))
    yield from shape
    if not shape:  # the checks below rely on the shape
        yield from _names(role.template, (*path, "template"))
        why = "nodes that end are replaced, not restarted in place"
        yield from _restart_policy(role.template, (*path, "template"), only="Never", why=why)
        yield from _image(role, path)
        yield from _program(role, path)
        yield from _grace(role, path)
        yield from _volumes(role, path)
    if isinstance(role.priority, int) and role.priority != 0:
        message = (
            f"pods have no numeric priority ({role.priority}): give the name of a PriorityClass, "
            "or high=1 to make all nodes high"
        )
        yield problem_at((*path, "priority"), message)


def _master_problems(master: MasterSpec, path: FieldPath) -> Iterator[Problem]:
    template, path = master.template, (*path, "template")
    shape = list(template_shape_problems(template, path))
    yield from shape
    if not shape:
        yield from _names(template, path)
        why = "a master that ends is restarted with its store"
        yield from _restart_policy(template, path, only="Always", why=why)
        if main_container(template).get("command"):
            message = "the operator sets the master's command; leave it out"
            yield problem_at((*path, *_MAIN, "command"), message)
        yield from _masters_volumes(template, path)


def _masters_volumes(template: Mapping[str, Any], path: FieldPath) -> Iterator[Problem]:
    volumes, mounts = _spec(template).get("volumes"), main_container(template).get("volumeMounts")
    for at, volume in _numbered(volumes, (*path, "spec", "volumes")):
        if volume.get("name") in [*MASTER_VOLUMES]:
            message = "is reserved for a volume of the master; choose another name"
            yield problem_at((*at, "name"), message)
    for at, mount in _numbered(mounts, (*path, *_MAIN, "volumeMounts")):
        if mount.get("mountPath") in [*MASTER_VOLUMES.values()]:
            yield problem_at((*at, "mountPath"), "is reserved for a volume of the master")


# --- a template by itself -------------------------------------------------------------------


def _names(template: Mapping[str, Any], path: FieldPath) -> Iterator[Problem]:
    names: list[str] = []
    for key in _CONTAINER_LISTS:
        for n, container in enumerate(_spec(template).get(key) or ()):
            within, name = ("spec", key, n), container.get("name")
            if name is None and within != _MAIN:  # the main container has a default name
                message = "is missing: give the container a name"
                yield problem_at((*path, *within, "name"), message)
            elif name is not None and name in names:
                message = f"two containers are named {name}"
                yield problem_at((*path, *within, "name"), message)
            names.append(name)


def _restart_policy(
    template: Mapping[str, Any], path: FieldPath, *, only: str, why: str
) -> Iterator[Problem]:
    if _spec(template).get("restartPolicy") not in (None, only):
        yield problem_at((*path, "spec", "restartPolicy"), f"must be {only} or left out: {why}")


def _spec(template: Mapping[str, Any]) -> Mapping[str, Any]:
    return template.get("spec") or {}


# --- a role beside its template -------------------------------------------------------------


def _image(role: RoleSpec, path: FieldPath) -> Iterator[Problem]:
    templates = main_container(role.template).get("image")
    if not role.image and not templates:
        message = "is missing: a pod needs one, here or in the first container of the template"
        yield problem_at((*path, "image"), message)
    elif role.image and templates and role.image != templates:
        message = f"the role's image is {role.image}; give only one of the two"
        yield problem_at((*path, "template", *_MAIN, "image"), message)


def _program(role: RoleSpec, path: FieldPath) -> Iterator[Problem]:
    container = main_container(role.template)
    written = {"command": role.command, "script": role.script, "module": role.module}
    given = next((name for name, value in written.items() if value), None)
    for key in ("command", "args"):
        rival = given or ("args" if key == "args" and role.args else None)
        if rival and container.get(key):
            message = f"the role's {rival} says what a node runs; give only one of the two"
            yield problem_at((*path, "template", *_MAIN, key), message)


def _grace(role: RoleSpec, path: FieldPath) -> Iterator[Problem]:
    """The controller stops nodes with the role's grace period, so a pod cannot have another one. It
    is not known whether the role's was written or is the default."""
    grace = role.termination_grace_period_seconds
    if _spec(role.template).get("terminationGracePeriodSeconds") not in (None, math.ceil(grace)):
        message = f"the role's is {grace:g}: set terminationGracePeriodSeconds of the role instead"
        yield problem_at((*path, "template", "spec", "terminationGracePeriodSeconds"), message)


def _volumes(role: RoleSpec, path: FieldPath) -> Iterator[Problem]:
    names: list[Any] = []
    for at, volume in (
        *_numbered(_spec(role.template).get("volumes"), (*path, "template", "spec", "volumes")),
        *_numbered(role.volumes, (*path, "volumes")),
    ):
        name = volume.get("name")
        if not name:
            yield problem_at((*at, "name"), "is missing: give the volume a name")
        elif name in names:
            yield problem_at((*at, "name"), f"two volumes are named {name}")
        elif name == ADDRESSES_VOLUME:
            message = "is reserved for the volume with the nodes' addresses; choose another name"
            yield problem_at((*at, "name"), message)
        elif name == SHARED_MEMORY and has_shared_memory(role):
            message = f"is reserved for the volume at {SHARED_MEMORY_PATH}; choose another name"
            yield problem_at((*at, "name"), message)
        names.append(name)
    yield from _mounts(role, path, volumes=names)


def _numbered(items: Any, path: FieldPath) -> Iterator[tuple[FieldPath, Mapping[str, Any]]]:
    for n, item in enumerate(items or ()):
        yield (*path, n), item


def _mounts(role: RoleSpec, path: FieldPath, *, volumes: list[Any]) -> Iterator[Problem]:
    taken = _template_mount_paths(role)
    for at, mount in _numbered(role.volume_mounts, (*path, "volumeMounts")):
        yield from _mount(mount, at, volumes=volumes, taken=taken)
        taken.append(mount.get("mountPath"))
    named = role.shared_memory is not None and _wants_shared_memory(role)
    if named and SHARED_MEMORY_PATH in taken:
        message = f"a volume is already mounted at {SHARED_MEMORY_PATH}; give only one of the two"
        yield problem_at((*path, "sharedMemory"), message)


def _mount(
    mount: Mapping[str, Any], path: FieldPath, *, volumes: list[Any], taken: list[Any]
) -> Iterator[Problem]:
    name, place = mount.get("name"), mount.get("mountPath")
    if not name:
        yield problem_at((*path, "name"), "is missing: give the name of a volume")
    elif name not in volumes:
        yield problem_at((*path, "name"), f"there is no volume named {name}")
    if not place:
        yield problem_at((*path, "mountPath"), "is missing: give the path to mount it at")
    elif place in taken:
        yield problem_at((*path, "mountPath"), f"something is already mounted at {place}")


def _template_mount_paths(role: RoleSpec) -> list[Any]:
    mounts = main_container(role.template).get("volumeMounts") or ()
    return [mount.get("mountPath") for mount in mounts]


def _wants_shared_memory(role: RoleSpec) -> bool:
    return role.shared_memory is None or parse_memory(role.shared_memory).bytes > 0
