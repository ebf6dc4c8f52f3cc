"""Checks of a cluster for `resile doctor`: whether jobs can be submitted to it and would run.

Nothing is created. A missing permission to read something is a note rather than an error: many
users of a cluster may submit jobs and see nothing else.
"""

from __future__ import annotations

from datetime import datetime, timezone

from resile.client.cluster.cluster import HOW_TO_INSTALL
from resile.kube.client import KubeClient
from resile.kube.errors import ApiError, ApiUnreachable, Forbidden, NotFound
from resile.kube.resources import (
    ACCESS_REVIEWS,
    CUSTOM_RESOURCES,
    ELASTIC_JOBS,
    LEASES,
    KubeObject,
)
from resile.operator.build.labels import OPERATOR_LEASE
from resile.operator.crd import GROUP, PLURAL, VERSION, custom_resource
from resile.platform.finding import Finding, Level

__all__ = ["diagnose_cluster"]

AREA = "cluster"

LEASE_EXPIRED = 60.0
"""Seconds. An operator renews its lease every two; clocks of two machines may differ a little."""

RIGHTS = (
    ("create", GROUP, PLURAL, "submit jobs"),
    ("list", GROUP, PLURAL, "list jobs"),
    ("watch", GROUP, PLURAL, "wait for jobs"),
    ("patch", GROUP, PLURAL, "scale, suspend and change jobs"),
    ("delete", GROUP, PLURAL, "delete jobs"),
    ("list", "", "events", "see what happened"),
    ("get", "", "pods/log", "read logs"),
)
"""The permissions that commands need, by verb, group and resource, and their purpose."""


async def diagnose_cluster(client: KubeClient, *, now: datetime | None = None) -> list[Finding]:
    """Run all checks, as the user of ``client`` and in its namespace."""
    try:
        version = await client.version()
    except ApiUnreachable as error:
        advice = "check the context, the network and the credentials with 'kubectl version'"
        return [_finding("API server", str(error), level=Level.ERROR, advice=advice)]
    except ApiError as error:
        return [_finding("API server", str(error), level=Level.ERROR)]
    definition = await _definition(client)
    findings = [_finding("API server", f"{version} at {client.server}"), definition]
    if definition.level is not Level.ERROR:
        findings.append(await _operator(client, now or datetime.now(timezone.utc)))
    findings.append(await _rights(client))
    return findings


def _finding(check: str, found: str, *, level: Level = Level.OK, advice: str = "") -> Finding:
    return Finding(AREA, check, level, found, advice)


async def _definition(client: KubeClient) -> Finding:
    """Check that the CustomResourceDefinition exists and is this version's."""
    check = "ElasticJob"
    try:
        await client.list(ELASTIC_JOBS, namespace=client.namespace)
        there = await client.get(CUSTOM_RESOURCES, f"{PLURAL}.{GROUP}")
    except NotFound:
        advice = f"install Resile {HOW_TO_INSTALL}"
        return _finding(check, "not defined here", level=Level.ERROR, advice=advice)
    except Forbidden:
        found = "whether it is defined cannot be seen with these rights"
        return _finding(check, found, level=Level.NOTE, advice="ask an administrator if in doubt")
    served = [one["name"] for one in there["spec"]["versions"] if one.get("served")]
    if VERSION not in served:
        advice = "apply deploy/crds of this version of Resile"
        found = f"served as {', '.join(served) or 'nothing'}, not as {VERSION}"
        return _finding(check, found, level=Level.ERROR, advice=advice)
    missing = _fields(custom_resource()) - _fields(there)
    if missing:
        advice = f"apply deploy/crds of this version: unknown there is {min(missing)}"
        return _finding(check, "of an older version", level=Level.WARNING, advice=advice)
    return _finding(check, f"{GROUP}/{VERSION} is defined")


def _fields(definition: KubeObject) -> set[str]:
    """Return the paths of all fields in a definition's schema."""

    def below(schema: KubeObject, path: str) -> set[str]:
        found: set[str] = set()
        for name, inner in schema.get("properties", {}).items():
            found |= {f"{path}.{name}"} | below(inner, f"{path}.{name}")
        if isinstance(items := schema.get("items"), dict):
            found |= below(items, f"{path}[]")
        if isinstance(values := schema.get("additionalProperties"), dict):
            found |= below(values, f"{path}.*")
        return found

    versions = [one for one in definition["spec"]["versions"] if one["name"] == VERSION]
    return below(versions[0]["schema"]["openAPIV3Schema"], "") if versions else set()


async def _operator(client: KubeClient, now: datetime) -> Finding:
    """Check that an operator holds the Lease, in whichever namespace it is."""
    try:
        listed = await client.list(LEASES, namespace=None, fields=f"metadata.name={OPERATOR_LEASE}")
    except Forbidden:
        found = "whether one runs cannot be seen with these rights"
        advice = "a submitted job that is not taken up within seconds has no operator"
        return _finding("operator", found, level=Level.NOTE, advice=advice)
    leaders = [lease for lease in listed.items if _is_held(lease["spec"], now)]
    if leaders:
        where = leaders[0]["metadata"]["namespace"]
        return _finding("operator", f"{leaders[0]['spec']['holderIdentity']} leads, in {where}")
    found = "its lease has expired" if listed.items else "no lease of one is here"
    advice = (
        f"jobs will not run; install it {HOW_TO_INSTALL}, or look at its pod. "
        "(An operator that was started with --no-elect holds no lease.)"
    )
    return _finding("operator", found, level=Level.WARNING, advice=advice)


def _is_held(spec: KubeObject, now: datetime) -> bool:
    renewed = spec.get("renewTime")
    if not spec.get("holderIdentity") or not renewed:
        return False
    age = now - datetime.fromisoformat(renewed.replace("Z", "+00:00"))
    return age.total_seconds() < LEASE_EXPIRED


async def _rights(client: KubeClient) -> Finding:
    refused = []
    for verb, group, resource, purpose in RIGHTS:
        name, _, subresource = resource.partition("/")
        attributes = {
            "namespace": client.namespace,
            "verb": verb,
            "group": group,
            "resource": name,
            "subresource": subresource,
        }
        spec = {"resourceAttributes": {key: value for key, value in attributes.items() if value}}
        review = await client.create(ACCESS_REVIEWS, {"metadata": {}, "spec": spec})
        if not review.get("status", {}).get("allowed"):
            refused.append(f"{purpose} ({verb} {resource})")
    where = f"in namespace {client.namespace}"
    if not refused:
        return _finding("your rights", f"all that the commands need {where}")
    found = f"{len(refused)} of {len(RIGHTS)} are missing {where}"
    advice = f"you may not: {', '.join(refused)}; ask an administrator for a Role that allows it"
    return _finding("your rights", found, level=Level.WARNING, advice=advice)
