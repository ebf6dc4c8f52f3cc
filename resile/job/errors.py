"""Errors in a job's description. All of them are for the user to fix.

::

    JobError
    ├── QuantityError     a cpu or memory amount that cannot be parsed
    ├── PriorityError     a priority that cannot be parsed
    └── ManifestError     one or more problems in a manifest, each with its field

This package raises nothing else on purpose; any other exception is a bug.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["JobError", "ManifestError", "PriorityError", "Problem", "QuantityError"]


class JobError(ValueError):
    """Base class of all errors in the description of a job."""


class QuantityError(JobError):
    """An amount such as ``4Gi`` or ``500m`` that cannot be parsed; the text says what is valid."""


class PriorityError(JobError):
    """A priority that is neither a number, nor a fraction, nor the name of a class."""


@dataclass(frozen=True)
class Problem:
    """A thing wrong in a manifest: where, what was found and what would be right."""

    path: str
    message: str
    line: int | None = None

    def __str__(self) -> str:
        """Format as one line."""
        where = self.path or "manifest"
        at = f" (line {self.line})" if self.line is not None else ""
        return f"{where}: {self.message}{at}"


class ManifestError(JobError):
    """Raised by ``parse_manifest`` with every problem it found, in the order of lines."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda problem: problem.line or 0))
        super().__init__(_summary(self.problems))


_MOST_LISTED = 50
"""Problems in one message: it is shown in a terminal, and in the status of a job on a cluster."""


def _summary(problems: Sequence[Problem]) -> str:
    if len(problems) == 1:
        return str(problems[0])
    lines = [f"  - {problem}" for problem in problems[:_MOST_LISTED]]
    if len(problems) > _MOST_LISTED:
        lines.append(f"  - and {len(problems) - _MOST_LISTED} more")
    return "\n".join([f"{len(problems)} problems in the manifest:", *lines])
