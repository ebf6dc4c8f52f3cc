"""The names of a checkpoint's files, and which files may be taken for ours.

    DIR/step-000000120/manifest.json
                       rank-00003-of-00008.r2-1f0c9a3e.safetensors     a part of attempt r2-1f0c9a3e
                       rank-00003-of-00008.r2-1f0c9a3e.json            its entry: it is complete
                       .rank-00003-of-….safetensors.8d2e41f0.tmp       being written, or left behind

Whatever has another name is the user's own and is never touched.

That is the main group's. Every other group of a job has a folder of its own beside the steps, and
in it all of this again, with its own fence:

    DIR/group-evaluate/step-000000040/manifest.json
                       fence/r5-77ab01c2.json
    DIR/group-ps.0/step-000000120/…                                    group ps/0

So two groups never write to one file and never look at each other's claims, a checkpoint appears
with one rename as ever, and to list a group is one list of its folder, however many others there
are. Names with the group in them would have made every list, every publication and every pruning
sort out what is whose. A Resile from before there were groups sees the main group alone.
"""

from __future__ import annotations

import re

from resile.groupname import MAIN_GROUP, is_group

__all__ = ["ENTRY_ENDING", "MANIFEST", "PART_ENDING", "TEMPORARY_ENDING"]
__all__ += ["attempt_of", "fence_folder", "group_folder", "group_of", "is_attempt", "is_ours"]
__all__ += ["step_folder", "step_of"]

MANIFEST = "manifest.json"
PART_ENDING = ".safetensors"
ENTRY_ENDING = ".json"
TEMPORARY_ENDING = ".tmp"

_ATTEMPT = r"[A-Za-z0-9_-]+"
_FILE = rf"manifest\.json|(rank|replica)-\d+-of-\d+\.{_ATTEMPT}\.(safetensors|json)"
_OURS = re.compile(rf"({_FILE})|\.({_FILE})\.[0-9a-f]+\.tmp")
_PART = re.compile(
    rf"\.?(rank|replica)-\d+-of-\d+\.(?P<attempt>{_ATTEMPT})\.(safetensors|json)(\.[0-9a-f]+\.tmp)?"
)
_STEP = re.compile(r"step-(\d{9,})")


def is_attempt(text: str) -> bool:
    """Whether it can be the name of an attempt: letters, digits, '-' and '_'."""
    return re.fullmatch(_ATTEMPT, text) is not None


def group_folder(group: str) -> str:
    """Where a group's checkpoints lie; empty for the main group, whose folder is the storage's.

    A slash becomes a dot, which no group's name has. Raises ValueError for what is no group.
    """
    if group == MAIN_GROUP:
        return ""
    if not is_group(group):
        raise ValueError(f"{group!r} is not the name of a group")
    return f"group-{group.replace('/', '.')}"


def group_of(folder: str) -> str | None:
    """The group whose checkpoints lie in a folder of this name; None for other folders."""
    name = folder.removeprefix("group-")
    group = name.replace(".", "/")
    return group if name != folder and is_group(group) and group_folder(group) == folder else None


def step_folder(step: int, group: str = MAIN_GROUP) -> str:
    """Where a step's checkpoint lies on its storage; names sort as steps do."""
    return _in_group(group, f"step-{step:09d}")


def fence_folder(group: str = MAIN_GROUP) -> str:
    """Where a group's rounds leave their claims."""
    return _in_group(group, "fence")


def _in_group(group: str, name: str) -> str:
    folder = group_folder(group)
    return f"{folder}/{name}" if folder else name


def step_of(folder: str) -> int | None:
    """The step whose checkpoint lies in a folder of this name."""
    found = _STEP.fullmatch(folder)
    return int(found.group(1)) if found else None


def attempt_of(name: str) -> str:
    """The attempt that a part, an entry, or a temporary file of one is of; empty for others."""
    found = _PART.fullmatch(name)
    return found.group("attempt") if found else ""


def is_ours(name: str) -> bool:
    """Whether a file in a step's folder was written by a checkpoint's writer."""
    return _OURS.fullmatch(name) is not None
