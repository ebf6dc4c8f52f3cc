"""Run build programs, whose long output matters only when they fail.

Their output goes to a log in the cache. Unlike the cluster's own programs they keep the caller's
environment, because it may contain the machine's proxy settings.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from devcluster.commands import PATH
from devcluster.errors import BuildFailed, Unsupported
from devcluster.packages import install

# Programs and the Debian packages that contain them.
NEEDED = {
    "buildah": "buildah",
    "debootstrap": "debootstrap",
    "unshare": "util-linux",
}

# Lines of a failed program's output in the error message; the rest is in the log.
_LINES_SHOWN = 15


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The caller's environment, with the system folders that a user's PATH often lacks."""
    path = f"{os.environ.get('PATH', '')}:{PATH}"
    return {**os.environ, "PATH": path, **(extra or {})}


def install_missing() -> None:
    """Install missing programs, if Debian packages can be installed here."""
    path = environment()["PATH"]
    missing = sorted(name for name in NEEDED if not shutil.which(name, path=path))
    if not missing:
        return
    if os.geteuid() != 0 or not shutil.which("apt-get", path=path):
        raise Unsupported(f"building images needs {', '.join(missing)}: please install them")
    install([NEEDED[name] for name in missing])


def logged(argv: Sequence[str], *, log: Path, extra: Mapping[str, str] | None = None) -> None:
    """Run a program with its output in ``log``; BuildFailed shows the last lines."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as out:
        begin = out.tell()
        out.write(f"$ {' '.join(argv)}\n")
        out.flush()
        done = subprocess.run(
            argv, env=environment(extra), stdout=out, stderr=subprocess.STDOUT, check=False
        )
    if done.returncode:
        with log.open(errors="replace") as printed:
            printed.seek(begin)
            last = "".join(printed.readlines()[-_LINES_SHOWN:])
        raise BuildFailed(f"{argv[0]} failed with exit code {done.returncode} (see {log}):\n{last}")


def output(argv: Sequence[str], *, extra: Mapping[str, str] | None = None) -> str | None:
    """Return the output of a short program, or None if it failed."""
    done = subprocess.run(
        argv, env=environment(extra), capture_output=True, text=True, errors="replace", check=False
    )
    return None if done.returncode else done.stdout.strip()
