"""A trial of a system at one size: start its master and agents, read their output, end all."""

import subprocess
import tempfile
import time
import uuid
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench.jobs import NoAnswer, free_ports, wait_until_listening
from bench.launchers import base_environment
from bench.processes import Processes, cpu_seconds
from bench.results import Outcome
from bench.scale.systems import System

BOUND = 120.0
_POLL = 0.02


class Trial(NamedTuple):
    """The result of one trial."""

    formed: Outcome
    reformed: Outcome
    master_cpu: Outcome


class _Facts(msgspec.Struct):
    formed: float | None = None
    reformed: float | None = None


def trial(system: System, agents: int) -> Trial:
    """Form a round of this many agents, lose one, form it again."""
    facts, used, reason = _Facts(), None, ""
    name = f"bench-{uuid.uuid4().hex[:8]}"
    with (
        tempfile.TemporaryDirectory(prefix="resile-bench-") as folder,
        Processes(name) as processes,
    ):
        try:
            used = _run(system, agents, processes=processes, folder=Path(folder), facts=facts)
        except NoAnswer as error:
            reason = str(error)
    outcomes = (facts.formed, facts.reformed, used)
    return Trial(*(Outcome(value, "" if value is not None else reason) for value in outcomes))


def _run(
    system: System, agents: int, *, processes: Processes, folder: Path, facts: _Facts
) -> float:
    """Fill in facts as they become known; return the CPU seconds that the master used."""
    (port,) = free_ports(1)
    command = system.service(agents, port=port, folder=folder / "state")
    env = {**base_environment(), **command.env}
    master = processes.start(command.argv, env=env, node=-1, log=folder / "service.log")
    wait_until_listening(port)
    before = cpu_seconds(master.pid)
    command = system.crowd(agents, port=port)
    env = {**base_environment(), **command.env}
    output = folder / "agents.log"
    crowd = processes.start(command.argv, env=env, node=0, log=output)
    for fact in ("formed", "reformed"):
        setattr(facts, fact, _wait_for(fact, output, crowd))
    return cpu_seconds(master.pid) - before


def _wait_for(fact: str, output: Path, crowd: subprocess.Popen[bytes]) -> float:
    deadline = time.monotonic() + BOUND
    while True:
        ended = crowd.poll() is not None
        for line in output.read_bytes().splitlines():
            if line.startswith(b"{") and fact in (said := msgspec.json.decode(line)):
                return float(said[fact])
        if ended:
            raise NoAnswer(f"the simulated agents failed (exit code {crowd.returncode})")
        if time.monotonic() > deadline:
            raise NoAnswer(f"not {fact} in {BOUND:g} s")
        time.sleep(_POLL)
