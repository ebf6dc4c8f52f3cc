"""Workers that have reached the process group, and the reports about them."""

from __future__ import annotations

import socket
import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from resile.agent.pg_probe import ReachedRanks, connected_pids

CONNECT = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))):
    print("up", flush=True)
    sys.stdin.read()
"""


def _start(*argv: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", *argv],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process


def test_only_processes_with_a_connection_to_the_port_have_reached_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as store:
        port = store.getsockname()[1]
        connected = [_start(CONNECT, str(port)) for _ in range(2)]
        other = _start("import sys; print('up', flush=True); sys.stdin.read()")
        everybody = [*connected, other]
        try:
            found = connected_pids([process.pid for process in everybody], port)
            assert found == {process.pid for process in connected}
        finally:
            for process in everybody:
                process.communicate()
        assert connected_pids([process.pid for process in everybody], port) == set()


@given(reached=st.sets(st.integers(0, 7)), connected=st.sets(st.integers(100, 107)))
def test_who_was_told_of_stays_told_and_is_not_looked_at_again(
    reached: set[int], connected: set[int]
) -> None:
    pids = {100 + rank: rank for rank in range(8)}
    told = ReachedRanks(round=3, reached=tuple(sorted(reached)))
    now = told.after(pids, connected)
    assert now.round == 3
    assert set(now.reached) == reached | {pid - 100 for pid in connected}
    assert set(now.unreached(pids).values()) == set(range(8)) - set(now.reached)
