"""Run a program and wait for it: argument lists only, never a shell."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from devcluster.errors import CommandFailed

# The PATH of all programs that the cluster runs, independent of the caller's.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# Without the proxies and credentials of the caller: the cluster is on loopback.
PLAIN_ENVIRONMENT = {"PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8"}


def run(
    *argv: str,
    stdin: str | None = None,
    env: Mapping[str, str] = PLAIN_ENVIRONMENT,
    cwd: Path | None = None,
) -> str:
    """Run a program and return its output; CommandFailed if its exit code is not 0."""
    done = subprocess.run(
        argv,
        input=stdin,
        env=env,
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        raise CommandFailed(argv, code=done.returncode, output=done.stdout)
    return done.stdout
