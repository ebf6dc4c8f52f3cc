"""`resile` commands without the half second of imports that each takes.

A test that runs many commands spends most of its time on Python's start. Here a server with all
commands imported forks one process for each, and the test starts a small client: it has the
command's standard streams, environment and folder, forwards its signals, and exits with its exit
status. So `subprocess` is used as usual:

    subprocess.run([*resile_command(), "jobs"], env=..., cwd=...)

Nothing else is different from `python -m resile`, except what /proc shows of the command. Tests
about processes (agents, masters, operators), and one for each command, start real ones.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.local.commands import wait_for

HERE = Path(__file__).parent


@functools.cache
def resile_command() -> tuple[str, ...]:
    """The beginning of a command line; starts this process's server, which ends with it."""
    address = Path(tempfile.mkdtemp(prefix="resile-warm-"), "server")
    # It outlives the test that happens to start it, so it has none of its variables: tests find
    # what they left running by $RESILE_HOME.
    environment = {name: text for name, text in os.environ.items() if name != "RESILE_HOME"}
    # It reads its standard input, to which nothing is written: it ends with this process.
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.warm_commands.server", str(address)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env=environment,
        cwd=HERE.parents[1],
    )
    wait_for(lambda: address.exists() or server.poll() is not None, "a server of warm commands")
    assert server.poll() is None, "the server of warm commands did not start"
    return (sys.executable, "-I", "-S", str(HERE / "client.py"), str(address))
