"""What a sound job still lacks, or says twice, when its nodes are to be pods.

A job of one machine needs no image and its templates are never looked at, so a manifest is not
refused for these; the operator shows them as a condition instead. The API server's own rules for
pods are not repeated here: only what would be refused late, or not be noticed at all, because a
role's fields and its template are put together into one pod. Templates hold anything at all, so
names are compared in lists: they may be of a kind that cannot be hashed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import NoneType
from typing import Any

from resile.job.errors import Problem
from resile.job.role import RoleSpec
from resile.job.spec import ElasticJob
from resile.job.yamltext import Path, dotted

__all__ = ["SHARED_MEMORY_PATH", "kubernetes_problems", "main_container"]

SHARED_MEMORY_PATH = "/dev/shm"

_TEMPLATE_KEYS = ("metadata", "spec")
_CONTAINER_LISTS = ("containers", "initContainers")


def kubernetes_problems(job: ElasticJob) -> list[Problem]:
    """Everything that keeps the job's nodes and master from becoming pods."""
    problems: list[Problem] = []
    for name, role in job.spec.roles.items():
        path: Path = ("spec", "roles", name)
        problems += _role_problems(role, path)
    problems += _template_problems(job.spec.master.template, ("spec", "master", "template"))
    return problems


def main_container(template: Mapping[str, Any]) -> dict[str, Any]:
    """The container of a pod template that the node itself runs in: the first; empty if none."""
    spec = template.get("spec")
    containers = spec.get("containers") if isinstance(spec, dict) else None
    first = containers[0] if isinstance(containers, list) and containers else None
    return first if isinstance(first, dict) else {}


def _role_problems(role: RoleSpec, path: Path) -> Iterator[Problem]:
    shape = list(_template_problems(role.template, (*path, "template")))
    yield from shape
    if not shape:  # else what follows would blame the role for its template
        yield from _image(role, path)
        yield from _program(role, path)
        yield from _volumes(role, path)
    if isinstance(role.priority, int) and role.priority != 0:
        message = (
            f"pods have no priority by number ({role.priority}): give the name of a PriorityClass, "
            "or high=1 if all nodes are to be high"
        )
        yield _problem((*path, "priority"), message)


# --- the shape of a template ----------------------------------------------------------------


def _template_problems(template: Mapping[str, Any], path: Path) -> Iterator[Problem]:
    for key in template:
        if key not in _TEMPLATE_KEYS:
            known = " and ".join(_TEMPLATE_KEYS)
            yield _problem((*path, key), f"is not part of a pod template, which has {known}")
    for key in _TEMPLATE_KEYS:
        if not isinstance(template.get(key, {}), dict | NoneType):
            yield _problem((*path, key), "expected a mapping")
    spec = template.get("spec")
    if isinstance(spec, dict):
        yield from _pod_problems(spec, (*path, "spec"))


def _pod_problems(spec: dict[str, Any], path: Path) -> Iterator[Problem]:
    names: list[Any] = []
    for key in _CONTAINER_LISTS:
        yield from _container_problems(spec.get(key), (*path, key), names)
    if spec.get("restartPolicy") not in (None, "Never"):
        message = "must be Never or left out: nodes that end are replaced, not restarted in place"
        yield _problem((*path, "restartPolicy"), message)
    if not _is_list_of_mappings(spec.get("volumes")):
        yield _problem((*path, "volumes"), "expected a list of mappings")


def _container_problems(containers: Any, path: Path, names: list[Any]) -> Iterator[Problem]:
    if not _is_list_of_mappings(containers):
        yield _problem(path, "expected a list of mappings")
        return
    for n, container in enumerate(containers or ()):
        at = (*path, n)
        name = container.get("name")
        if name is None and at[-2:] != ("containers", 0):  # the first one's may be left to us
            yield _problem((*at, "name"), "is missing: give the container a name")
        elif name is not None and name in names:
            yield _problem((*at, "name"), f"there are two containers called {name}")
        names.append(name)
        if not _is_list_of_mappings(container.get("volumeMounts")):
            yield _problem((*at, "volumeMounts"), "expected a list of mappings")


def _is_list_of_mappings(value: Any) -> bool:
    """Absent counts as an empty list."""
    if value is None:
        return True
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


# --- a role beside its template -------------------------------------------------------------


def _image(role: RoleSpec, path: Path) -> Iterator[Problem]:
    templates = main_container(role.template).get("image")
    if not role.image and not templates:
        message = "is missing: a pod needs one, here or in the first container of the template"
        yield _problem((*path, "image"), message)
    elif role.image and templates and role.image != templates:
        at = (*path, "template", "spec", "containers", 0, "image")
        yield _problem(at, f"the role's image is {role.image}; give only one of the two")


def _program(role: RoleSpec, path: Path) -> Iterator[Problem]:
    container, at = main_container(role.template), (*path, "template", "spec", "containers", 0)
    written = {"command": role.command, "script": role.script, "module": role.module}
    given = next((name for name, value in written.items() if value), None)
    for key in ("command", "args"):
        rival = given or ("args" if key == "args" and role.args else None)
        if rival and container.get(key):
            message = f"the role's {rival} says what a node runs; give only one of the two"
            yield _problem((*at, key), message)


def _volumes(role: RoleSpec, path: Path) -> Iterator[Problem]:
    spec = role.template.get("spec") or {}
    container = main_container(role.template)
    known = [volume.get("name") for volume in spec.get("volumes") or ()]
    for n, volume in enumerate(role.volumes):
        at, name = (*path, "volumes", n, "name"), volume.get("name")
        if not name:
            yield _problem(at, "is missing: give the volume a name")
        elif name in known:
            yield _problem(at, f"there are two volumes called {name}")
        known.append(name)
    taken = [mount.get("mountPath") for mount in container.get("volumeMounts") or ()]
    for n, mount in enumerate(role.volume_mounts):
        yield from _mount(mount, (*path, "volumeMounts", n), volumes=known, taken=taken)
        taken.append(mount.get("mountPath"))
    if role.shared_memory is not None and SHARED_MEMORY_PATH in taken:
        message = f"a volume is mounted at {SHARED_MEMORY_PATH} already; give only one of the two"
        yield _problem((*path, "sharedMemory"), message)


def _mount(
    mount: Mapping[str, Any], path: Path, *, volumes: list[Any], taken: list[Any]
) -> Iterator[Problem]:
    name, place = mount.get("name"), mount.get("mountPath")
    if not name:
        yield _problem((*path, "name"), "is missing: give the name of a volume")
    elif name not in volumes:
        yield _problem((*path, "name"), f"there is no volume called {name}")
    if not place:
        yield _problem((*path, "mountPath"), "is missing: give the place to mount it at")
    elif place in taken:
        yield _problem((*path, "mountPath"), f"something is mounted at {place} already")


def _problem(path: Path, message: str) -> Problem:
    return Problem(dotted(path), message)
