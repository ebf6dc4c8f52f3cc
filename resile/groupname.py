"""The name of a group: those roles of a job that train together, in a world of their own.

A worker finds its group in ``$RESILE_GROUP``. The main group has no name there: an ordinary job has
no other, so whatever it writes is the same as if there were no groups.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["GROUP_VARIABLE", "LONGEST_GROUP", "MAIN_GROUP", "group_in", "is_group", "told_group"]

GROUP_VARIABLE = "RESILE_GROUP"
MAIN_GROUP = ""

LONGEST_GROUP = 128
"""Characters. A role's name has 63 at most, and a number may follow it."""

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*(/[a-z0-9][a-z0-9_-]*)*", re.ASCII)


def is_group(text: str) -> bool:
    """Whether it can be the name of a group other than the main one: ``evaluate``, ``ps/0``.

    Only small letters: two groups must stay two where a file system takes large for small ones.
    """
    return len(text) <= LONGEST_GROUP and _NAME.fullmatch(text) is not None


def group_in(environment: Mapping[str, str]) -> str:
    """The group of a worker with this environment; raises ValueError for what cannot be one."""
    group = environment.get(GROUP_VARIABLE, MAIN_GROUP)
    if group != MAIN_GROUP and not is_group(group):
        raise ValueError(
            f"${GROUP_VARIABLE} is {group!r}: a group's name is small letters, digits, '-' and "
            f"'_', with '/' between its parts, {LONGEST_GROUP} characters at most"
        )
    return group


def told_group(group: str) -> str:
    """For people."""
    return f"group '{group}'" if group else "the main group"
