"""The name of a group: the roles of a job that share one world.

A worker reads its group from ``$RESILE_GROUP``. The main group has an empty name: an ordinary job
has no other group, and writes the same as before there were groups.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = [
    "GROUP_VARIABLE",
    "LONGEST_GROUP",
    "MAIN_GROUP",
    "group_from_environment",
    "is_group",
    "describe_group",
]

GROUP_VARIABLE = "RESILE_GROUP"
MAIN_GROUP = ""

LONGEST_GROUP = 128
"""Characters. A role's name has at most 63, and a number may follow it."""

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*(/[a-z0-9][a-z0-9_-]*)*", re.ASCII)


def is_group(text: str) -> bool:
    """Whether ``text`` is a valid name of a group other than the main one: ``evaluate``, ``ps/0``.

    Lower case only, so that two groups stay apart on case-insensitive file systems.
    """
    return len(text) <= LONGEST_GROUP and _NAME.fullmatch(text) is not None


def group_from_environment(environment: Mapping[str, str]) -> str:
    """The group of a worker with this environment; raises ValueError for an invalid name."""
    group = environment.get(GROUP_VARIABLE, MAIN_GROUP)
    if group != MAIN_GROUP and not is_group(group):
        raise ValueError(
            f"${GROUP_VARIABLE} is {group!r}: a group's name is lower-case letters, digits, '-' "
            f"and '_', with '/' between its parts, at most {LONGEST_GROUP} characters"
        )
    return group


def describe_group(group: str) -> str:
    """The group as text for messages."""
    return f"group '{group}'" if group else "the main group"
