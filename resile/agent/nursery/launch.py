"""Starts a nursery process, after a trial that shows whether it can be warm.

A warm nursery is the workers' own command, `python script.py ...`, with a folder of ours at the
front of PYTHONPATH in which the interpreter finds our `sitecustomize` (see there). If it were not
found, the user's script would run; so a harmless command is tried first.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from .command import WorkerCommand

_HOOK = Path(__file__).parent / "hook"
_TASK = "RESILE_NURSERY"
_TRIAL_PASSED = 17
_TRIAL_LIMIT = 60.0

COLD_ARGV = [sys.executable, "-I", "-S", str(_HOOK / "sitecustomize.py")]
"""A nursery that imports nothing, for cold workers only: it starts in a hundredth of a second."""


def hooked(env: Mapping[str, str], task: str) -> dict[str, str]:
    """Return the environment in which a starting interpreter finds the hook."""
    path = [str(_HOOK), *([env["PYTHONPATH"]] if env.get("PYTHONPATH") else [])]
    return {**env, "PYTHONPATH": os.pathsep.join(path), _TASK: task}


def hook_is_found(command: WorkerCommand, *, env: Mapping[str, str], cwd: str) -> bool:
    """Whether the interpreter, started with these flags and environment, runs the hook."""
    try:
        trial = subprocess.run(
            [command.python, *command.flags, "-c", ""],
            env=hooked(env, "trial"),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_TRIAL_LIMIT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return trial.returncode == _TRIAL_PASSED


def launch(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: str, keep: Sequence[int]
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a nursery process in a session of its own; return it and our end of the socket.

    `keep` are further descriptors that it inherits under the same numbers.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with theirs:
        try:
            process = subprocess.Popen(
                argv,
                env=hooked(env, str(theirs.fileno())),
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=[theirs.fileno(), *keep],
                start_new_session=True,
            )
        except OSError:
            ours.close()
            raise
    return process, ours
