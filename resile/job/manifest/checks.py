"""Checks of a manifest whose fields have the right types: how they relate to each other.

Each check yields findings; :func:`check_job` runs them all. Code that builds an ElasticJob by other
means than a manifest should call it as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from resile.job.errors import PriorityError, QuantityError
from resile.job.limits import MAX_ARGUMENT_BYTES, MAX_MANIFEST_BYTES, MAX_NODES, MAX_PATH_BYTES
from resile.job.manifest.yaml_text import FieldPath
from resile.job.spec.groups import DEFAULT_GROUP
from resile.job.spec.job import ElasticJob, JobSpec
from resile.job.spec.names import LONGEST_NAME, PLACEHOLDERS, fill, placeholders_of
from resile.job.spec.priority import parse_priority
from resile.job.spec.quantity import Amount, Quantity, parse_memory, parse_quantity
from resile.job.spec.role import Replicas, ResourceSpec, RoleKind, RoleSpec

__all__ = ["ManifestFinding", "check_job"]


class ManifestFinding(NamedTuple):
    """A problem in a job whose fields have the right types."""

    path: FieldPath
    message: str
    relative: bool = False
    """It concerns several fields of one object: if one of them is invalid, it may be moot."""


_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_ENV_NAME = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
_LONGEST_FILE_NAME = 255
_LARGEST_SERIAL = 99_999
"""The room that is kept for the number in a node's name, which becomes a DNS label."""

BYTES = frozenset({"memory", "ephemeral-storage"})


def check_job(job: ElasticJob) -> list[ManifestFinding]:
    """Find all problems of a job whose fields have the right types."""
    findings: list[ManifestFinding] = []
    for name, role in job.spec.roles.items():
        path: FieldPath = ("spec", "roles", name)
        for check in _ROLE_CHECKS:
            findings += check(role, path)
    findings += _amounts(job.spec.master.resources, ("spec", "master", "resources"))
    findings += _whole_size(job)
    findings += _names(job)
    findings += _scaled_size(job.spec)
    findings += _groups(job.spec)
    findings += _dependencies(job.spec)
    findings += _success(job.spec)
    return findings


def _names(job: ElasticJob) -> Iterator[ManifestFinding]:
    """Patterns that give two objects the same name, and names that are not DNS labels."""
    for field, (allowed, needed) in PLACEHOLDERS.items():
        pattern = getattr(job.spec.names, field)
        if pattern is None:
            continue
        at: FieldPath = ("spec", "names", _camel(field))
        found = placeholders_of(pattern)
        if found - allowed:
            unknown = ", ".join(f"{{{word}}}" for word in sorted(found - allowed))
            known = ", ".join(f"{{{word}}}" for word in sorted(allowed))
            yield ManifestFinding(at, f"{unknown} is not a placeholder here; use {known}")
        elif needed - found:
            missing = ", ".join(f"{{{word}}}" for word in sorted(needed - found))
            yield ManifestFinding(at, f"{missing} is missing: two objects would have the same name")
        elif field == "node" and not found & {"rank", "serial"}:
            yield ManifestFinding(
                at, "{serial} or {rank} is missing: two nodes would have the same name"
            )
        elif wrong := next((n for n in _filled(job, pattern) if not _DNS_LABEL.fullmatch(n)), None):
            yield ManifestFinding(at, f"gives {wrong}: use lower-case letters, digits and '-'")
    yield from _longest_name(job)


def _camel(field: str) -> str:
    first, *rest = field.split("_")
    return first + "".join(map(str.capitalize, rest))


def _filled(job: ElasticJob, pattern: str) -> list[str]:
    """The longest names that a pattern gives."""
    values = {"job": job.metadata.name, "rank": MAX_NODES, "serial": _LARGEST_SERIAL}
    roles = list(job.spec.roles) if "{role}" in pattern else [""]
    return [fill(pattern, role=role, **values) for role in roles]


def _longest_name(job: ElasticJob) -> Iterator[ManifestFinding]:
    names = job.spec.names
    patterns = {
        "nodes": names.node,
        "hosts": names.hostname,
        "a Service": names.master_service,
        "another Service": names.nodes_service,
        "the Service of a rank": names.rank_service,
        "the token": names.token,
    }
    longest = {
        what: max(_filled(job, pattern), key=len)
        for what, pattern in patterns.items()
        if pattern is not None
    }
    what, name = max(longest.items(), key=lambda item: len(item[1]))
    if len(name) > LONGEST_NAME:
        yield ManifestFinding(
            ("metadata", "name"),
            f"{what} would be called {name}, longer than {LONGEST_NAME} characters: shorten the "
            f"job's or the role's name by {len(name) - LONGEST_NAME}",
        )


def _whole_size(job: ElasticJob) -> Iterator[ManifestFinding]:
    """Find sizes that a job's status, or a Kubernetes object, could not hold."""
    nodes = job.spec.most_nodes
    if nodes > MAX_NODES:
        message = f"the roles may have {nodes} nodes together; a job has at most {MAX_NODES}"
        yield ManifestFinding(("spec", "roles"), message)
    length = len(msgspec.json.encode(job.spec))
    if length > MAX_MANIFEST_BYTES:
        message = f"is {length} bytes long as JSON; a spec has at most {MAX_MANIFEST_BYTES}"
        yield ManifestFinding(("spec",), message)


def _lengths(role: RoleSpec, path: FieldPath) -> Iterator[ManifestFinding]:
    """Lengths in bytes, which the kernel limits; the types count characters."""
    places = {"script": role.script, "workingDir": role.working_dir}
    for field, place in places.items():
        encoded = (place or "").encode()
        if len(encoded) > MAX_PATH_BYTES:
            message = f"a path has at most {MAX_PATH_BYTES} bytes, this one {len(encoded)}"
            yield ManifestFinding((*path, field), message)
        elif any(len(part) > _LONGEST_FILE_NAME for part in encoded.split(b"/")):
            message = f"each part of a path has at most {_LONGEST_FILE_NAME} bytes"
            yield ManifestFinding((*path, field), message)
    arguments: list[tuple[FieldPath, str]] = [
        *(((*path, "command", n), text) for n, text in enumerate(role.command)),
        *(((*path, "args", n), text) for n, text in enumerate(role.args)),
        *(((*path, "env", name), f"{name}={text}") for name, text in role.environment.items()),
    ]
    for at, text in arguments:
        if len(text.encode()) > MAX_ARGUMENT_BYTES:
            yield ManifestFinding(
                at, f"longer than the {MAX_ARGUMENT_BYTES} bytes that Linux allows"
            )


def _sizes(role: RoleSpec, path: FieldPath) -> Iterator[ManifestFinding]:
    size, unit, at = role.size, role.node_unit, (*path, "replicas")
    if size.min > size.max:
        message = f"min ({size.min}) is greater than max ({size.max})"
        yield ManifestFinding((*at, "min"), message, relative=True)
    elif not size.min <= size.wanted <= size.max:
        message = f"wanted ({size.wanted}) must lie between min ({size.min}) and max ({size.max})"
        yield ManifestFinding((*at, "wanted"), message, relative=True)
    elif not isinstance(role.replicas, Replicas) and size.max % unit:
        yield ManifestFinding(
            at, f"{size.max} is not a multiple of nodeUnit ({unit})", relative=True
        )
    elif size.max and max(1, -(-size.min // unit)) * unit > size.max:
        message = f"no multiple of {unit} lies between {size.min} and {size.max} nodes"
        yield ManifestFinding((*path, "nodeUnit"), message, relative=True)


def _program(role: RoleSpec, path: FieldPath) -> Iterator[ManifestFinding]:
    written = {"command": role.command, "script": role.script, "module": role.module}
    given = [name for name, value in written.items() if value]
    if len(given) > 1:
        message = f"give only one of {' and '.join(given)}"
        yield ManifestFinding((*path, given[1]), message, relative=True)
    if not given and not role.template and not role.image:
        message = "is missing: give a command, a script or a module"
        yield ManifestFinding((*path, "command"), message, relative=True)
    if role.procs_per_node != 1 and role.command:
        message = "is only valid with script or module; a command starts its own workers"
        yield ManifestFinding((*path, "procsPerNode"), message, relative=True)


def _environment(role: RoleSpec, path: FieldPath) -> Iterator[ManifestFinding]:
    if isinstance(role.env, dict):
        named: list[tuple[FieldPath, str]] = [((*path, "env", name), name) for name in role.env]
    else:
        named = [((*path, "env", n, "name"), var.name) for n, var in enumerate(role.env)]
    seen: set[str] = set()
    for at, name in named:
        if name in seen:
            yield ManifestFinding(at, f"{name} is given twice")
        seen.add(name)
        if not _ENV_NAME.fullmatch(name):
            yield ManifestFinding(
                at, "a variable's name is made of letters, digits, '_', '-' and '.'"
            )


def _resources(role: RoleSpec, path: FieldPath) -> Iterator[ManifestFinding]:
    return _amounts(role.resources, (*path, "resources"))


def _amounts(resources: ResourceSpec, at: FieldPath) -> Iterator[ManifestFinding]:
    amounts: dict[str, dict[str, Quantity]] = {"requests": {}, "limits": {}}
    for side, written in (("requests", resources.requests), ("limits", resources.limits)):
        for name, amount in written.items():
            try:
                amounts[side][name] = _amount(name, amount)
            except QuantityError as error:
                yield ManifestFinding((*at, side, name), str(error))
    for name, limit in amounts["limits"].items():
        request = amounts["requests"].get(name, limit)
        if request > limit:
            yield ManifestFinding(
                (*at, "limits", name), f"the limit {limit} is less than the request {request}"
            )


def _amount(name: str, amount: Amount) -> Quantity:
    return parse_memory(amount) if name in BYTES else parse_quantity(amount)


def _growth(role: RoleSpec, path: FieldPath) -> Iterator[ManifestFinding]:
    try:
        parse_memory(role.memory_growth.ceiling)
    except QuantityError as error:
        yield ManifestFinding((*path, "memoryGrowth", "ceiling"), str(error))


def _shared_memory(role: RoleSpec, path: FieldPath) -> Iterator[ManifestFinding]:
    try:
        parse_memory(role.shared_memory if role.shared_memory is not None else 0)
    except QuantityError as error:
        yield ManifestFinding((*path, "sharedMemory"), str(error))


def _priority(role: RoleSpec, path: FieldPath) -> Iterator[ManifestFinding]:
    try:
        parse_priority(role.priority)
    except PriorityError as error:
        yield ManifestFinding((*path, "priority"), str(error))


def _ports(role: RoleSpec, path: FieldPath) -> Iterator[ManifestFinding]:
    by_number: dict[int, str] = {}
    for name, number in role.ports.items():
        if number in by_number:
            message = f"port {number} is already named {by_number[number]}"
            yield ManifestFinding((*path, "ports", name), message)
        by_number.setdefault(number, name)


def _policies(role: RoleSpec, path: FieldPath) -> Iterator[ManifestFinding]:
    if role.required is not None and role.failure_policy is not None:
        message = "give only one of failurePolicy and required"
        yield ManifestFinding((*path, "required"), message, relative=True)


def _exit_rules(role: RoleSpec, path: FieldPath) -> Iterator[ManifestFinding]:
    for n, rule in enumerate(role.exit_codes):
        at = (*path, "exitCodes", n)
        if not rule.codes and rule.range is None:
            yield ManifestFinding((*at, "codes"), "is missing: give codes or a range")
        if rule.range is not None and rule.range.min > rule.range.max:
            yield ManifestFinding(
                (*at, "range", "min"),
                f"min ({rule.range.min}) is greater than max ({rule.range.max})",
            )


_ROLE_CHECKS = (
    _lengths,
    _sizes,
    _program,
    _environment,
    _resources,
    _growth,
    _shared_memory,
    _priority,
    _exit_rules,
    _ports,
    _policies,
)


def _scaled_size(spec: JobSpec) -> Iterator[ManifestFinding]:
    if spec.replicas is not None and spec.scaled_role() is None:
        message = (
            f"the role to scale is ambiguous ({', '.join(spec.roles)}): name one of them worker, "
            "or give each role its own replicas"
        )
        yield ManifestFinding(("spec", "replicas"), message)


def _groups(spec: JobSpec) -> Iterator[ManifestFinding]:
    """Every Lockstep role must be in exactly one group, and other roles in none."""
    if not spec.groups:
        return
    seen: dict[str, str] = {}
    for group, members in spec.groups.items():
        for n, role in enumerate(members.roles):
            at: FieldPath = ("spec", "groups", group, "roles", n)
            if role not in spec.roles:
                yield ManifestFinding(at, _no_such_role(role, spec))
            elif role in seen:
                yield ManifestFinding(at, f"role {role} is already in group {seen[role]}")
            elif spec.kind_of(role) is not RoleKind.LOCKSTEP:
                kind = spec.kind_of(role).value
                yield ManifestFinding(
                    at, f"role {role} is {kind}; only Lockstep roles share a world"
                )
            seen.setdefault(role, group)
    for role in spec.roles:
        if spec.kind_of(role) is RoleKind.LOCKSTEP and role not in seen:
            message = f"is Lockstep but in no group: add it to spec.groups.{DEFAULT_GROUP}.roles"
            yield ManifestFinding(("spec", "roles", role), message)


def _dependencies(spec: JobSpec) -> Iterator[ManifestFinding]:
    for name, role in spec.roles.items():
        for n, wanted in enumerate(role.dependencies):
            if wanted not in spec.roles:
                place = wanted if isinstance(role.depends_on, dict) else n
                at: FieldPath = ("spec", "roles", name, "dependsOn", place)
                yield ManifestFinding(at, _no_such_role(wanted, spec))
    reported: set[str] = set()
    for name in spec.roles:
        cycle = _cycle_from(name, spec)
        if cycle and not reported & set(cycle):
            reported |= set(cycle)
            shown = " -> ".join((*cycle, cycle[0]))
            yield ManifestFinding(
                ("spec", "roles", name, "dependsOn"), f"roles depend on each other: {shown}"
            )


def _cycle_from(start: str, spec: JobSpec) -> list[str]:
    """The roles of a cycle through ``start``, in order; empty if there is none."""
    trails = [[start]]
    visited: set[str] = set()
    while trails:
        trail = trails.pop()
        for following in spec.roles[trail[-1]].dependencies:
            if following == start:
                return trail
            if following in spec.roles and following not in visited:
                visited.add(following)
                trails.append([*trail, following])
    return []


def _success(spec: JobSpec) -> Iterator[ManifestFinding]:
    for n, name in enumerate(spec.success.roles):
        if name not in spec.roles:
            yield ManifestFinding(("spec", "success", "roles", n), _no_such_role(name, spec))
    for name in spec.success_roles():
        if name in spec.roles and spec.roles[name].size.max == 0:
            message = "the job succeeds when this role completes, so it needs at least one node"
            yield ManifestFinding(("spec", "roles", name, "replicas"), message)


def _no_such_role(name: str, spec: JobSpec) -> str:
    return f'there is no role "{name}"; the roles are {", ".join(spec.roles)}'
