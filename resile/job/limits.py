"""Bounds of every number and text that describes a job, for manifests and flags alike.

A value out of bounds is refused where it is written, with the name of its field or flag. Without
bounds it would be accepted and fail later, with a traceback from whatever adds it up, sends it or
starts a process with it. Each bound is far above any real value and documents its reason.
"""

from __future__ import annotations

__all__ = [
    "DEEPEST_MANIFEST",
    "LARGEST_INTEGER",
    "LARGEST_MANIFEST",
    "LONGEST_ANNOTATION",
    "LONGEST_ARGUMENT",
    "LONGEST_LEASE",
    "LONGEST_PATH",
    "LONGEST_SECONDS",
    "MOST_ENTRIES",
    "MOST_NODES",
    "MOST_RESTARTS",
    "MOST_ROLES",
    "MOST_WORKERS",
    "SHORTEST_LEASE",
    "unusable_text",
]

MOST_NODES = 5_000
"""Nodes of one job. Kubernetes supports clusters of up to 5,000 machines, and the status of that
many nodes fits into one of its objects."""

MOST_WORKERS = 4096
"""Workers on one node: a hundred times the largest machine's accelerators."""

MOST_ROLES = 32
"""Kinds of node in one job. A job has one to four."""

MOST_RESTARTS = 1_000_000
"""Restarts, relaunches and budgets of them."""

MOST_ENTRIES = 1_000
"""Items of a list or entries of a mapping that a manifest's own fields hold."""

LONGEST_SECONDS = 315_360_000.0
"""Ten years. Added to any date or passed to any timer, it does not overflow."""

SHORTEST_LEASE = 0.1
"""A master checks a lease ten times in its span; below this it would do nothing else."""

LONGEST_LEASE = 86_400.0
"""A day. There is no use in taking a dead node for alive any longer than that."""

LONGEST_PATH = 4_095
"""Bytes of a path on Linux, without the zero at its end (PATH_MAX)."""

LONGEST_ARGUMENT = 131_071
"""Bytes of one argument, or of one environment variable with its name, on Linux
(MAX_ARG_STRLEN)."""

LARGEST_MANIFEST = 256 * 1024
"""Bytes of a manifest's spec as JSON. An object in Kubernetes has 1.5 MiB for its spec, kubectl's
copy of it, the record of who wrote which field, and the status."""

LONGEST_ANNOTATION = 256 * 1024
"""Kubernetes' own bound, for all annotations together. kubectl keeps the whole manifest in one."""

DEEPEST_MANIFEST = 64
"""Levels of nested mappings and lists. A pod template has about ten."""

LARGEST_INTEGER = 2**63 - 1
"""The largest integer that every JSON reader around Kubernetes can hold."""


def unusable_text(text: str) -> str:
    """The reason why a text can be neither sent nor passed to a process; empty if it can."""
    if "\0" in text:
        return "contains a NUL character"
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"contains {text[error.start]!a}, half of a character (a lone surrogate)"
    return ""
