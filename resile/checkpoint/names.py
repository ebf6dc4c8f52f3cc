"""The names of a checkpoint's files, and how Resile's own files are recognised.

    DIR/step-000000120/manifest.json
                       rank-00003-of-00008.r2-1f0c9a3e.safetensors     a part of attempt r2-1f0c9a3e
                       rank-00003-of-00008.r2-1f0c9a3e.json            its entry: it is complete
                       .rank-00003-of-….safetensors.8d2e41f0.tmp       being written, or left behind

A file with any other name belongs to the user and is never touched.

This is the layout of the main group. Every other group of a job has a folder of its own beside the
steps, with the same layout and its own fence:

    DIR/group-evaluate/step-000000040/manifest.json
                       fence/r5-77ab01c2.json
    DIR/group-ps.0/step-000000120/…                                    group ps/0

So two groups never write to the same file and never read each other's claims, a checkpoint still
appears with one rename, and listing a group is one list of its folder, however many groups there
are. With the group in each file name, every list, publication and pruning would have to filter by
group. A Resile from before there were groups sees only the main group.
"""

from __future__ import annotations

import re

from resile.group_name import MAIN_GROUP, is_group

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
    """Whether ``text`` is a valid attempt name: letters, digits, '-' and '_'."""
    return re.fullmatch(_ATTEMPT, text) is not None


def group_folder(group: str) -> str:
    """The folder of a group's checkpoints; empty for the main group, which uses the root folder.

    A slash becomes a dot, which group names cannot contain. Raises ValueError for an invalid name.
    """
    if group == MAIN_GROUP:
        return ""
    if not is_group(group):
        raise ValueError(f"{group!r} is not the name of a group")
    return f"group-{group.replace('/', '.')}"


def group_of(folder: str) -> str | None:
    """The group that a folder name belongs to; None for other folders."""
    name = folder.removeprefix("group-")
    group = name.replace(".", "/")
    return group if name != folder and is_group(group) and group_folder(group) == folder else None


def step_folder(step: int, group: str = MAIN_GROUP) -> str:
    """The folder of a step's checkpoint on its storage; names sort in the order of steps."""
    return _in_group(group, f"step-{step:09d}")


def fence_folder(group: str = MAIN_GROUP) -> str:
    """The folder in which a group's rounds write their claims."""
    return _in_group(group, "fence")


def _in_group(group: str, name: str) -> str:
    folder = group_folder(group)
    return f"{folder}/{name}" if folder else name


def step_of(folder: str) -> int | None:
    """The step that a folder name belongs to; None for other folders."""
    found = _STEP.fullmatch(folder)
    return int(found.group(1)) if found else None


def attempt_of(name: str) -> str:
    """The attempt in the name of a part, an entry or a temporary file; empty for other names."""
    found = _PART.fullmatch(name)
    return found.group("attempt") if found else ""


def is_ours(name: str) -> bool:
    """Whether a file in a step's folder has a name that a checkpoint's writer uses."""
    return _OURS.fullmatch(name) is not None
