"""The state directory, where the processes of one user on one machine find each other.

``$RESILE_HOME``, or ``$XDG_STATE_HOME/resile``, or ``~/.local/state/resile``: one folder per job
with its token (readable by its owner only), its master's store and its log. If the user's home
cannot be written, it is a folder under the temporary directory.
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

from resile.system.processes import is_locked
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
"""All files of a run's folder."""


class StateDirError(Exception):
    """The user's state folder cannot be used."""


def state_home() -> Path:
    """Return the folder of all jobs' folders, without creating it."""
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
    """Return whether this user may write to ``folder``, or to its nearest existing parent."""
    there = next((one for one in (folder, *folder.parents) if one.exists()), Path("/"))
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)


@functools.cache
def _temporary_home(temporary: Path) -> Path:
    """Return the folder of a user whose home cannot be written, the same for all processes.

    Its name can be guessed, so one that others could have created or can change is refused.
    """
    folder = temporary / f"resile-state-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise StateDirError(
            f"neither the home folder nor {folder} can be written ({error.strerror}); "
            "set $RESILE_HOME to another folder"
        ) from None
    others = stat.S_IMODE(found.st_mode) & (stat.S_IRWXG | stat.S_IRWXO)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or others:
        raise StateDirError(
            f"the home folder cannot be written, and {folder} is accessible to other users; "
            "set $RESILE_HOME to another folder"
        )
    log.warning("the home folder cannot be written: the job's token and state are in %s", folder)
    return folder


def run_folder(endpoint: Endpoint) -> Path:
    """Return the folder of the master at ``endpoint``: its token, its store and its log.

    Named by address and not by host name, so that ``localhost`` and ``127.0.0.1`` are the same.
    """
    try:
        host = str(socket.getaddrinfo(endpoint.host, None)[0][4][0])
    except (socket.gaierror, UnicodeError):
        host = endpoint.host
    return state_home() / "runs" / re.sub(r"[^A-Za-z0-9._-]+", "_", f"{host}_{endpoint.port}")


def private_folder(path: Path) -> Path:
    """Create ``path`` with access for its owner only."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise StateDirError(
            f"the folder {path} cannot be created: {error.strerror}; set $RESILE_HOME to another"
        ) from None
    return path


def remove_run_folder(path: Path) -> None:
    """Delete Resile's files in a run's folder, and the folder if that leaves it empty.

    By name and never recursively: other files are not ours to delete. While a master runs nothing
    is deleted: its agents find its token there.
    """
    with contextlib.suppress(OSError):
        if is_locked(path / "master.db.lock"):
            return
        for name in RUN_FILES:
            (path / name).unlink(missing_ok=True)
        path.rmdir()
