"""Check that a pod template has the shape that building a pod from it relies on.

A manifest accepts any template, so it is checked here, before a pod is built from it: every field
that is read, extended or merged must have the right type. The API server judges the rest. Absent
and null are the same, as in Kubernetes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from resile.job.errors import Problem, QuantityError
from resile.job.quantity import parse_quantity
from resile.job.yamltext import Path, dotted

__all__ = ["problem_at", "template_shape_problems"]

Shape: TypeAlias = Callable[[Any, Path], Iterator[Problem]]
"""A check that yields the problems of the value at a path."""


def template_shape_problems(template: Mapping[str, Any], path: Path) -> Iterator[Problem]:
    """Find everything in a template that a pod cannot be built from."""
    for key in template:
        if key not in _PARTS:
            known = " and ".join(_PARTS)
            yield problem_at((*path, key), f"is not part of a pod template, which has {known}")
    yield from _mapping(_PARTS)(template, path)


def problem_at(path: Path, message: str) -> Problem:
    """A problem of the value at ``path``."""
    return Problem(dotted(path), message)


# --- kinds of shape -------------------------------------------------------------------------


def _mapping(parts: Mapping[str, Shape]) -> Shape:
    def check(value: Any, path: Path) -> Iterator[Problem]:
        if isinstance(value, dict):
            for name, shape in parts.items():
                yield from shape(value.get(name), (*path, name))
        elif value is not None:
            yield problem_at(path, "expected a mapping")

    return check


def _mappings(parts: Mapping[str, Shape] | None = None) -> Shape:
    """A list of mappings, each with ``parts``."""
    each = _mapping(parts or {})

    def check(value: Any, path: Path) -> Iterator[Problem]:
        if isinstance(value, list) and all(isinstance(item, dict) for item in value):
            for n, item in enumerate(value):
                yield from each(item, (*path, n))
        elif value is not None:
            yield problem_at(path, "expected a list of mappings")

    return check


def _texts(value: Any, path: Path) -> Iterator[Problem]:
    if isinstance(value, dict):
        for name, text in value.items():
            yield from _text(text, (*path, name))
    elif value is not None:
        yield problem_at(path, "expected a mapping of text to text")


def _text(value: Any, path: Path) -> Iterator[Problem]:
    if not isinstance(value, str | None):
        yield problem_at(path, f"expected text, found {value!r}; quote it if it is meant as text")


def _named(value: Any, path: Path) -> Iterator[Problem]:
    if value in (None, ""):
        yield problem_at(path, "is missing: give the variable a name")
    yield from _text(value, path)


def _amounts(value: Any, path: Path) -> Iterator[Problem]:
    if not isinstance(value, dict | None):
        yield problem_at(path, "expected a mapping of resources to amounts, such as memory: 4Gi")
        return
    for name, amount in (value or {}).items():
        try:
            parse_quantity(amount)
        except QuantityError as error:
            yield problem_at((*path, name), str(error))


def _containers(value: Any, path: Path) -> Iterator[Problem]:
    """Only the first, in which the node or the master runs, is merged with other fields."""
    problems = list(_mappings({"name": _text, "volumeMounts": _mappings()})(value, path))
    yield from problems
    if not problems and value:
        yield from _mapping(_MAIN)(value[0], (*path, 0))


# --- the shape of a pod ---------------------------------------------------------------------

_MAIN: dict[str, Shape] = {
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
