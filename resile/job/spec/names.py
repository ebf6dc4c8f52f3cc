"""The patterns in a manifest for the names of a job's nodes, Services and other objects.

The defaults are Resile's own. Other patterns are for people who come from another system, and for
tools that rely on its names. A pattern has placeholders in braces: ``{job}``, and where they
apply ``{role}``, ``{rank}`` (the slot in the role, which a replacement takes over) and ``{serial}``
(counts the nodes of a role, or the masters of a job; never reused).
"""

from __future__ import annotations

import re
from typing import Annotated

from msgspec import Meta

from resile.job.spec.fields import ManifestStruct, Text

__all__ = ["LONGEST_NAME", "PLACEHOLDERS", "NamesSpec", "fill", "placeholders_of"]

LONGEST_NAME = 63
"""Characters of a DNS label: these become names of pods and Services."""

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


class NamesSpec(ManifestStruct, frozen=True, kw_only=True):
    """Patterns of names."""

    node: Annotated[
        Text,
        Meta(
            description="A node and its pod. With {serial} a replacement has a new name; with "
            "{rank} it takes over the name once the previous pod is deleted."
        ),
    ] = "{job}-{role}-{serial}"
    hostname: Annotated[
        Text,
        Meta(description="A node's hostname in the cluster's DNS, which follows the rank."),
    ] = "{job}-{role}-{rank}"
    master: Annotated[
        Text | None,
        Meta(
            description="The master's pod. Default: {job}-master-{serial}, or "
            "{job}-coordinator-{serial} in a job with a role named master."
        ),
    ] = None
    master_service: Annotated[Text, Meta(description="The Service of the master.")] = "{job}-master"
    nodes_service: Annotated[
        Text, Meta(description="The headless Service that gives nodes their hostnames.")
    ] = "{job}-nodes"
    rank_service: Annotated[
        Text | None,
        Meta(
            description="A headless Service for each rank, such as {job}-{role}-{rank}. Default: "
            "none."
        ),
    ] = None
    token: Annotated[Text, Meta(description="The Secret with the job's token.")] = "{job}-token"


_NODE = frozenset({"job", "role", "rank", "serial"})
_RANK = frozenset({"job", "role", "rank"})
_JOB = frozenset({"job"})

PLACEHOLDERS: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "node": (_NODE, frozenset({"role"})),
    "hostname": (_RANK, _RANK - {"job"}),
    "master": (_JOB | {"serial"}, frozenset({"serial"})),
    "master_service": (_JOB, _JOB),
    "nodes_service": (_JOB, _JOB),
    "rank_service": (_RANK, _RANK),
    "token": (_JOB, _JOB),
}
"""For each pattern: the placeholders it may have, and those that keep its names distinct."""


def placeholders_of(pattern: str) -> set[str]:
    """The placeholders of a pattern."""
    return set(_PLACEHOLDER.findall(pattern))


def fill(pattern: str, **values: object) -> str:
    """Fill in a pattern; a placeholder without a value stays as it is written."""
    return _PLACEHOLDER.sub(lambda found: str(values.get(found[1], found[0])), pattern)
