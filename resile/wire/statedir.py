"""Where the processes of one user on one machine find each other.

``$RESILE_HOME``, or ``$XDG_STATE_HOME/resile``, or ``~/.local/state/resile``: one folder a job with
its token (readable by its owner alone), its master's store and its log. A user without a home that
can be written has a folder of the same kind under the temporary directory.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import re
import socket
import stat
import tempfile
from pathlib import Path

from resile.system.file_locks import is_locked
from resile.wire.endpoint import Endpoint

log = logging.getLogger("resile.state")

RUN_FILES = (
    "token",
    "store",
    "master.log",
    "master.db",
    "master.db-shm",
    "master.db-wal",
    "master.db.lock",
)
"""All that a run's folder holds."""


class StateDirError(Exception):
    """The user's state folder cannot be used."""


def state_home() -> Path:
    """The folder all jobs' folders lie in; not created here."""
    if home := os.environ.get("RESILE_HOME"):
        return Path(home)
    if xdg := os.environ.get("XDG_STATE_HOME"):
        return Path(xdg) / "resile"
    usual = _home() / ".local" / "state" / "resile"
    return usual if _can_be_made(usual) else _temporary_home(Path(tempfile.gettempdir()))


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:  # a user that the system does not know, as in many containers
        return Path("/")


def _can_be_made(folder: Path) -> bool:
    """Whether this user may write in ``folder``, or in what is there of the way to it."""
    there = next((one for one in (folder, *folder.parents) if one.exists()), Path("/"))
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)


@functools.cache
def _temporary_home(temporary: Path) -> Path:
    """A folder for a user whose home cannot be written: the same one for all of its processes.

    Anybody may guess its name, so one that others could have made or can change is refused.
    """
    folder = temporary / f"resile-state-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise StateDirError(
            f"neither the home folder nor {folder} can be written ({error.strerror}); "
            "$RESILE_HOME names another"
        ) from None
    others = stat.S_IMODE(found.st_mode) & (stat.S_IRWXG | stat.S_IRWXO)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or others:
        raise StateDirError(
            f"the home folder cannot be written, and {folder} is not this user's alone; "
            "$RESILE_HOME names another"
        )
    log.warning("the home folder cannot be written: the job's token and state are in %s", folder)
    return folder


def run_folder(endpoint: Endpoint) -> Path:
    """The folder of the master at ``endpoint``: its token, its store and its log.

    One an endpoint, by address and not by name, so that ``localhost`` and ``127.0.0.1`` meet.
    """
    try:
        host = str(socket.getaddrinfo(endpoint.host, None)[0][4][0])
    except (socket.gaierror, UnicodeError):
        host = endpoint.host
    return state_home() / "runs" / re.sub(r"[^A-Za-z0-9._-]+", "_", f"{host}_{endpoint.port}")


def private_folder(path: Path) -> Path:
    """Create ``path`` so that only its owner can look inside."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise StateDirError(
            f"the folder {path} cannot be made: {error.strerror}; $RESILE_HOME names another"
        ) from None
    return path


def remove_run_folder(path: Path) -> None:
    """Remove what Resile keeps in a run's folder, and the folder if that leaves it empty.

    By name and never recursively: whatever else lies there is not ours to delete. Where a master
    lives nothing is removed: its agents find its token there.
    """
    with contextlib.suppress(OSError):
        if is_locked(path / "master.db.lock"):
            return
        for name in RUN_FILES:
            (path / name).unlink(missing_ok=True)
        path.rmdir()
