"""The names of a checkpoint's files, and which files may be taken for ours.

    DIR/step-000000120/manifest.json
                       rank-00003-of-00008.r2-1f0c9a3e.safetensors     a part of attempt r2-1f0c9a3e
                       rank-00003-of-00008.r2-1f0c9a3e.json            its entry: it is complete
                       .rank-00003-of-….safetensors.8d2e41f0.tmp       being written, or left behind

Whatever has another name is the user's own and is never touched.
"""

from __future__ import annotations

import re

__all__ = ["ENTRY_ENDING", "MANIFEST", "PART_ENDING", "TEMPORARY_ENDING"]
__all__ += ["attempt_of", "is_attempt", "is_ours", "step_folder", "step_of"]

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


def step_folder(step: int) -> str:
    """Where a step's checkpoint lies; names sort as steps do."""
    return f"step-{step:09d}"


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
