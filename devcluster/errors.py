"""What can go wrong, as one tree.

ClusterError
 ├── Unsupported       this machine cannot run the cluster at all
 ├── BuildFailed       the Kubernetes binaries could not be built
 ├── CommandFailed     a program that was called once failed
 ├── DaemonFailed      a program that should stay died, or did not get ready in time
 └── NotFound          there is no cluster, or none of its parts has that name

All are raised with one line for a person; the command line prints it and exits with 1.
"""

from collections.abc import Sequence
from pathlib import Path


class ClusterError(Exception):
    """Anything the user should read as one line instead of a traceback."""


class Unsupported(ClusterError):
    """The machine lacks something that no retry will bring."""


class BuildFailed(ClusterError):
    """Fetching or compiling Kubernetes failed."""


class CommandFailed(ClusterError):
    """A program ended with an exit code other than 0."""

    def __init__(self, argv: Sequence[str], *, code: int, output: str) -> None:
        self.output = output
        last = output.strip().splitlines()[-1:] or ["no output"]
        super().__init__(f"`{' '.join(argv)}` failed with exit code {code}: {last[0]}")


class DaemonFailed(ClusterError):
    """A part of the cluster died at once or never got ready; its log says why."""

    def __init__(self, name: str, *, problem: str, log: Path) -> None:
        super().__init__(f"{name} {problem}; its log is {log}")


class NotFound(ClusterError):
    """Nothing of that name is part of the cluster."""
