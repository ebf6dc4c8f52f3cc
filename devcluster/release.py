"""The Kubernetes that a cluster runs: a folder of binaries, and the flags that its version needs.

The cluster's state folder records which one it was brought up with, so that a later repair, or a
restart of a component, runs the same program with the same flags. Command lines are written for
1.20; where a newer version removed a flag or changed a default, the difference is a property here.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from devcluster.commands import run
from devcluster.errors import ClusterError
from devcluster.files import write_json

BINARIES = ("kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubelet")


@dataclass(frozen=True)
class Release:
    """A folder with Kubernetes' binaries, all of one version."""

    folder: Path
    version: str

    @property
    def minor(self) -> int:
        """20 for 1.20.2."""
        return int(self.version.split(".")[1])

    @property
    def has_insecure_ports(self) -> bool:
        """Whether scheduler and controller manager have `--port`, which turns plain HTTP off.

        Until 1.22 they serve plain HTTP by default; the flag was removed in 1.24.
        """
        return self.minor < 24

    @property
    def has_dockershim(self) -> bool:
        """Whether a kubelet uses Docker by default and needs `--container-runtime` to change it."""
        return self.minor < 24

    @property
    def judges_cgroups(self) -> bool:
        """Whether a kubelet has `failCgroupV1`: newer versions may refuse cgroup version 1."""
        return self.minor >= 31

    @property
    def makes_account_secrets(self) -> bool:
        """Whether a service account gets a secret with a token, which its pods require."""
        return self.minor < 24

    def program(self, name: str) -> str:
        return str(self.folder / name)


def release_in(folder: Path) -> Release:
    """The release in a folder; ClusterError if its binaries are missing or do not run."""
    folder = folder.resolve()
    if missing := missing_binaries(folder):
        raise ClusterError(f"{folder} lacks {', '.join(missing)}")
    try:
        said = run(str(folder / "kube-apiserver"), "--version")
    except OSError as error:
        raise ClusterError(f"{folder}/kube-apiserver does not run here: {error}") from error
    return Release(folder, parse_version(said))


def parse_version(said: str) -> str:
    """Parse the version, such as 1.34.11, from the output of `kube-apiserver --version`."""
    found = re.search(r"Kubernetes v(1\.\d+\S*)", said)
    if not found:
        raise ClusterError(f"no version of Kubernetes in {said.strip()!r}")
    return found[1]


def missing_binaries(folder: Path, names: Sequence[str] = BINARIES) -> list[str]:
    return [name for name in names if not (folder / name).is_file()]


def remember(release: Release, note: Path) -> None:
    """Record which release a cluster runs; ClusterError if it runs another already."""
    present = remembered(note)
    if present is not None and present != release:
        raise ClusterError(
            f"the cluster runs Kubernetes {present.version} from {present.folder}; "
            f"`make cluster-down` removes it, then {release.version} can be brought up"
        )
    write_json(note, {"folder": str(release.folder), "version": release.version})


def remembered(note: Path) -> Release | None:
    """The release that a cluster was brought up with; None if there is no record."""
    try:
        document = json.loads(note.read_text())
    except FileNotFoundError:
        return None
    return Release(Path(document["folder"]), document["version"])
