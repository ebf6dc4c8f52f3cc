"""Kubernetes' binaries, built once on a machine from Debian's source package.

Debian's binary packages contain only kubectl. Everything, Go's cache included, happens in a folder
beside the final one, which is renamed in one step when complete; a build that was killed starts
from the beginning. It takes nine minutes on two cores, and 3 GB of disk for that time.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from devcluster.apt_sources import source_entries
from devcluster.commands import run
from devcluster.errors import BuildFailed, CommandFailed
from devcluster.layout import KUBERNETES_VERSION, Layout
from devcluster.lock import exclusive
from devcluster.machine import architecture
from devcluster.packages import TO_BUILD, install, missing
from devcluster.progress import Progress
from devcluster.release import BINARIES, missing_binaries
from devcluster.repairs import REPAIRS, repaired

_APT = Path("/etc/apt")
_STILL_AT_IT = 30.0


def ensure_binaries(
    layout: Layout, *, progress: Progress, binaries: Sequence[str] = BINARIES
) -> None:
    """Build the binaries if some are missing; concurrent callers build only once."""
    folder = layout.built.folder
    if not missing_binaries(folder, binaries):
        return
    lock = layout.cache / "kubernetes-build.lock"
    with exclusive(lock, waiting=lambda: progress.reached("waiting for another build to end")):
        if not missing_binaries(folder, binaries):
            return
        if packages := missing(TO_BUILD):
            progress.reached(f"installing with apt-get: {' '.join(packages)}")
            install(packages)
        work = _new_work_folder(layout)
        _build(work, binaries, progress)
        shutil.rmtree(folder, ignore_errors=True)
        (work / "done").rename(folder)
        shutil.rmtree(work)
        progress.reached(f"Kubernetes {KUBERNETES_VERSION} is in {folder}")


def _new_work_folder(layout: Layout) -> Path:
    """Create a folder for this attempt and remove those of earlier ones.

    Each attempt has its own: the compilers of a killed build may still be running for a moment.
    """
    prefix = f"kubernetes-{KUBERNETES_VERSION}.building-"
    for leftover in layout.cache.glob(f"{prefix}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=prefix, dir=layout.cache))


def _build(work: Path, binaries: Sequence[str], progress: Progress) -> None:
    progress.reached(f"fetching the source of Kubernetes {KUBERNETES_VERSION} with apt-get")
    archive = _fetch(work)
    tree = work / "tree"
    tree.mkdir()
    run("tar", "--extract", "--strip-components=1", "--file", str(archive), cwd=tree)
    for name, changes in REPAIRS.items():
        (tree / name).write_text(repaired((tree / name).read_text(), changes))
    progress.reached(f"building {', '.join(binaries)}; about nine minutes on two cores")
    _make(work, tree, binaries, progress)
    made = tree / "_output" / "local" / "bin" / "linux" / architecture()
    (work / "done").mkdir()
    for name in binaries:
        (made / name).rename(work / "done" / name)


def _fetch(work: Path) -> Path:
    """Download the upstream archive of Debian's source package, of exactly this version."""
    entries, lists, source = work / "apt" / "entries", work / "apt" / "lists", work / "source"
    for folder in (entries, lists / "partial", source):
        folder.mkdir(parents=True)
    for file in (_APT / "sources.list", *sorted((_APT / "sources.list.d").glob("*"))):
        if file.suffix in (".list", ".sources") and file.is_file():
            (entries / file.name).write_text(source_entries(file.name, file.read_text()))
    options = (
        *("-o", "Dir::Etc::sourcelist=/dev/null", "-o", f"Dir::Etc::sourceparts={entries}"),
        *("-o", f"Dir::State::lists={lists}", "-o", "APT::Sandbox::User=root"),
    )
    try:
        run("apt-get", *options, "--quiet", "update", env=os.environ)
        fetch = ("--quiet", "source", "--download-only", "--only-source", "kubernetes")
        run("apt-get", *options, *fetch, env=os.environ, cwd=source)
    except CommandFailed as error:
        raise BuildFailed(f"the source of Kubernetes cannot be fetched: {error}") from error
    archives = list(source.glob(f"kubernetes_*{KUBERNETES_VERSION}*.orig.tar.*"))
    if not archives:
        raise BuildFailed(
            f"this Debian's source package is not Kubernetes {KUBERNETES_VERSION}; bookworm's is"
        )
    return archives[0]


def _make(work: Path, tree: Path, binaries: Sequence[str], progress: Progress) -> None:
    # Kubernetes 1.20 is built by its own makefile, at its package's path in a GOPATH.
    place = tree / ".go" / "src" / "k8s.io" / "kubernetes"
    place.parent.mkdir(parents=True)
    place.symlink_to(tree)
    env = {
        **os.environ,
        "PWD": str(place),
        "GOPATH": str(tree / ".go"),
        "CGO_ENABLED": "0",
        "KUBE_GIT_VERSION": f"v{KUBERNETES_VERSION}",
    }
    what = " ".join(f"cmd/{name}" for name in binaries)
    log = work / "build.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ("make", f"WHAT={what}"),
            cwd=place,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            code = _wait(process, log, progress)
        except BaseException:
            process.terminate()
            raise
    if code:
        raise BuildFailed(f"make failed with exit code {code}; its output is in {log}")


def _wait(process: "subprocess.Popen[bytes]", log: Path, progress: Progress) -> int:
    """Wait for the exit code; every 30 s, print a line with the last output of make."""
    while True:
        try:
            return process.wait(_STILL_AT_IT)
        except subprocess.TimeoutExpired:
            said = log.read_text(errors="replace").strip().splitlines()[-1:]
            progress.reached(f"still building: {' '.join(said)[:80]}")
