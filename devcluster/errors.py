"""The exceptions of the development cluster.

ClusterError
 ├── Unsupported       this machine cannot run the cluster at all
 ├── BuildFailed       the Kubernetes binaries could not be built
 ├── CommandFailed     a command failed
 ├── DaemonFailed      a daemon died, or did not become ready in time
 └── NotFound          there is no cluster, or none of its parts has that name

All have a one-line message; the command line prints it and exits with 1.
"""

from collections.abc import Sequence
from pathlib import Path


class ClusterError(Exception):
    """An error shown to the user as one line instead of a traceback."""


class Unsupported(ClusterError):
    """The machine lacks a requirement; a retry will not help."""


class BuildFailed(ClusterError):
    """Fetching or compiling Kubernetes failed."""


class CommandFailed(ClusterError):
    """A program ended with an exit code other than 0."""

    def __init__(self, argv: Sequence[str], *, code: int, output: str) -> None:
        self.output = output
        last = output.strip().splitlines()[-1:] or ["no output"]
        super().__init__(f"`{' '.join(argv)}` failed with exit code {code}: {last[0]}")


class DaemonFailed(ClusterError):
    """A component died at once or never became ready; its log contains the reason."""

    def __init__(self, name: str, *, problem: str, log: Path) -> None:
        super().__init__(f"{name} {problem}; its log is {log}")


class NotFound(ClusterError):
    """Nothing of that name is part of the cluster."""
