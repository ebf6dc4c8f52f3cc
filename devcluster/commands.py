"""Programs that are called once and waited for: argument lists only, never a shell."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from devcluster.errors import CommandFailed

# Everything the cluster calls or starts finds its programs here, whatever the caller's PATH is.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# Proxies and credentials of the caller's environment are no business of a cluster on loopback.
PLAIN_ENVIRONMENT = {"PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8"}


def run(
    *argv: str,
    stdin: str | None = None,
    env: Mapping[str, str] = PLAIN_ENVIRONMENT,
    cwd: Path | None = None,
) -> str:
    """The program's output; CommandFailed when it does not end well."""
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
