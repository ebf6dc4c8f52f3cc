"""A trial of a system: start its master and its clients, count, end everything."""

import subprocess
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench.jobs import NoAnswer, free_ports, wait_until_listening
from bench.launchers import base_environment
from bench.processes import Processes, cpu_seconds
from bench.results import Outcome
from bench.shards.systems import ShardSystem, Window

CLIENTS = 64
PROCESSES = 2
"""Client processes: a single interpreter could be the bottleneck with a fast master."""

GETTING_READY = 15.0
"""Seconds for all clients to import, connect and describe the dataset."""

LATE = 60.0
_POLL = 0.05


class ShardTrial(NamedTuple):
    """Microseconds per shard, of time and of the master's CPU."""

    time: Outcome
    master_cpu: Outcome


def trial(system: ShardSystem, *, clients: int = CLIENTS, seconds: float) -> ShardTrial:
    """Lease shards for this many seconds."""
    name = f"bench-{uuid.uuid4().hex[:8]}"
    with (
        tempfile.TemporaryDirectory(prefix="resile-bench-") as folder,
        Processes(name) as processes,
    ):
        try:
            shards, cpu = _run(system, clients, seconds, processes, Path(folder))
        except NoAnswer as error:
            nothing = Outcome(None, str(error))
            return ShardTrial(nothing, nothing)
    return ShardTrial(Outcome(1e6 * seconds / shards), Outcome(1e6 * cpu / shards))


def _run(
    system: ShardSystem, clients: int, seconds: float, processes: Processes, folder: Path
) -> tuple[int, float]:
    """Return the shards leased, and the CPU seconds that the master used for them."""
    (port,) = free_ports(1)
    command = system.service(port=port, folder=folder / "state")
    env = {**base_environment(), **command.env}
    master = processes.start(command.argv, env=env, node=-1, log=folder / "service.log")
    wait_until_listening(port)
    window = Window(time.monotonic() + GETTING_READY, seconds)
    crowds = []
    for number, share in enumerate(_shares(clients, PROCESSES)):
        first = number * -(-clients // PROCESSES)
        command = system.clients(share, first=first, port=port, window=window)
        env = {**base_environment(), **command.env}
        log = folder / f"clients-{number}.log"
        crowds.append((processes.start(command.argv, env=env, node=number, log=log), log))
    time.sleep(max(0.0, window.begin - time.monotonic()))
    before = cpu_seconds(master.pid)
    time.sleep(seconds)
    used = cpu_seconds(master.pid) - before
    return sum(_shards_in(crowd, log) for crowd, log in crowds), used


def _shares(count: int, parts: int) -> Sequence[int]:
    size = -(-count // parts)
    return [min(size, count - start) for start in range(0, count, size)]


def _shards_in(crowd: subprocess.Popen[bytes], log: Path) -> int:
    try:
        crowd.wait(LATE)
    except subprocess.TimeoutExpired:
        raise NoAnswer(f"the clients did not end within {LATE:g} s") from None
    for line in log.read_bytes().splitlines():
        if line.startswith(b'{"shards"'):
            return int(msgspec.json.decode(line)["shards"])
    raise NoAnswer(f"the clients failed (exit code {crowd.returncode})")
