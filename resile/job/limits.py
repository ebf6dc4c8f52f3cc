"""Bounds of every number and text that describes a job, for manifests and flags alike.

A value out of bounds is refused where it is written, with the name of its field or flag. Without
bounds it would be accepted and fail later, with a traceback from whatever adds it up, sends it or
starts a process with it. Each bound is far above any real value and documents its reason.
"""

from __future__ import annotations

__all__ = [
    "MAX_MANIFEST_DEPTH",
    "MAX_INTEGER",
    "MAX_MANIFEST_BYTES",
    "MAX_ANNOTATION_BYTES",
    "MAX_ARGUMENT_BYTES",
    "MAX_LEASE",
    "MAX_PATH_BYTES",
    "MAX_SECONDS",
    "MAX_ENTRIES",
    "MAX_NODES",
    "MAX_RESTARTS",
    "MAX_ROLES",
    "MAX_WORKERS",
    "MIN_LEASE",
    "text_problem",
]

MAX_NODES = 5_000
"""Nodes of one job. Kubernetes supports clusters of up to 5,000 machines, and the status of that
many nodes fits into one of its objects."""

MAX_WORKERS = 4096
"""Workers on one node: a hundred times the largest machine's accelerators."""

MAX_ROLES = 32
"""Kinds of node in one job. A job has one to four."""

MAX_RESTARTS = 1_000_000
"""Restarts, relaunches and budgets of them."""

MAX_ENTRIES = 1_000
"""Items of a list or entries of a mapping that a manifest's own fields hold."""

MAX_SECONDS = 315_360_000.0
"""Ten years. Added to any date or passed to any timer, it does not overflow."""

MIN_LEASE = 0.1
"""A master checks a lease ten times in its span; below this it would do nothing else."""

MAX_LEASE = 86_400.0
"""A day. There is no use in taking a dead node for alive any longer than that."""

MAX_PATH_BYTES = 4_095
"""Bytes of a path on Linux, without the zero at its end (PATH_MAX)."""

MAX_ARGUMENT_BYTES = 131_071
"""Bytes of one argument, or of one environment variable with its name, on Linux
(MAX_ARG_STRLEN)."""

MAX_MANIFEST_BYTES = 256 * 1024
"""Bytes of a manifest's spec as JSON. An object in Kubernetes has 1.5 MiB for its spec, kubectl's
copy of it, the record of who wrote which field, and the status."""

MAX_ANNOTATION_BYTES = 256 * 1024
"""Kubernetes' own bound, for all annotations together. kubectl keeps the whole manifest in one."""

MAX_MANIFEST_DEPTH = 64
"""Levels of nested mappings and lists. A pod template has about ten."""

MAX_INTEGER = 2**63 - 1
"""The largest integer that every JSON reader around Kubernetes can hold."""


def text_problem(text: str) -> str:
    """The reason why a text can be neither sent nor passed to a process; empty if it can."""
    if "\0" in text:
        return "contains a NUL character"
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"contains {text[error.start]!a}, half of a character (a lone surrogate)"
    return ""
