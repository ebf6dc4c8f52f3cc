"""Simulated agents on a Resile master: a task each, with a real connection of its own.

Each one sends the messages of a real agent: Hello, Ready after Prepare, a renewal of its lease
several times per lease, WorkersFailed when the collective breaks. The agent that is lost is a
separate process and is really killed; at that moment all survivors report that their workers
failed, which is what happens to a job in the middle of an all-reduce.

Forming is timed from before the first of all other connections to the last agent's Start, forming
again from the kill to the last survivor's Start. Prints one JSON line per fact: {"formed": seconds}
and {"reformed": seconds}. The token comes from $RESILE_TOKEN.
"""

import argparse
import asyncio
import contextlib
import json
import os
import resource
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process

from resile.job.elasticity import Elasticity
from resile.wire.auth import TOKEN_VARIABLE
from resile.wire.client import Access, AgentConnection, connect, greet
from resile.wire.endpoint import Endpoint
from resile.wire.errors import Disconnected
from resile.wire.messages import (
    Fence,
    Handover,
    HandoverTold,
    Hello,
    NodeInfo,
    Prepare,
    Ready,
    Renew,
    Start,
    StoreAddress,
    Welcome,
    WorkerFailure,
    WorkersFailed,
)

HOST = "127.0.0.1"
JOB = "scale"
RENEWALS_PER_LEASE = 5
# One process simulates all agents: more concurrent handshakes would only wait for each other.
CONNECTING_AT_ONCE = 100
_NO_STORE = StoreAddress(HOST, 1)
_PEER_LOST = WorkerFailure(local_rank=0, rank=0, pid=0, exit_code=1, message="peer lost")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--agents", type=int, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--victim", action="store_true", help="be the one that is lost")
    options = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    crowd = Crowd(options.agents, port=options.port)
    asyncio.run(crowd.victim() if options.victim else crowd.simulate())


class Crowd:
    """All agents of one job."""

    def __init__(self, agents: int, *, port: int) -> None:
        self._agents = agents
        self._port = port
        self._access = Access(Endpoint(HOST, port), os.environ[TOKEN_VARIABLE])
        self._elasticity = Elasticity(min_nodes=agents - 1, max_nodes=agents, max_restarts=10)
        self._door = asyncio.Semaphore(CONNECTING_AT_ONCE)
        self._members: list[Member] = []
        self._started = 0
        self._all_started = asyncio.Event()

    async def simulate(self) -> None:
        """Form a round, lose one agent, form a round again."""
        victim = await self._start_victim()
        begun = time.monotonic()
        survivors = self._agents - 1
        self._members = [Member(self, number) for number in range(1, survivors + 1)]
        tasks = [asyncio.create_task(member.run()) for member in self._members]
        await self._everybody_started(tasks)
        _say("formed", begun)
        begun = time.monotonic()
        victim.send_signal(signal.SIGKILL)
        await asyncio.gather(*(member.report_failure() for member in self._members))
        await self._everybody_started(tasks)
        _say("reformed", begun)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*(member.close() for member in self._members))
        await victim.wait()

    async def victim(self) -> None:
        """Run one agent, until killed."""
        await Member(self, 0).run()

    async def enter(self, number: int) -> tuple[AgentConnection, Welcome]:
        """Connect, send Hello and return the connection and the Welcome."""
        info = NodeInfo(name=f"sim-{number}", host=HOST, address=HOST, nproc=1)
        async with self._door:
            connection = await connect(self._access)
            answer = await greet(connection, Hello(job=JOB, info=info, elasticity=self._elasticity))
        if not isinstance(answer, Welcome):
            raise RuntimeError(f"not welcome: {answer}")
        return connection, answer

    def note_start(self) -> None:
        """Count one more agent that received Start."""
        self._started += 1
        if self._started == len(self._members):
            self._all_started.set()

    async def _everybody_started(self, tasks: list[asyncio.Task[None]]) -> None:
        """Wait for the last Start; an agent that ended instead raises its error here."""
        waiting = asyncio.create_task(self._all_started.wait())
        done, _ = await asyncio.wait([waiting, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        self._started = 0
        self._all_started.clear()

    async def _start_victim(self) -> Process:
        """Start the agent that will be lost, as a process; return after the master's Welcome."""
        argv = ["--agents", str(self._agents), "--port", str(self._port), "--victim"]
        victim = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bench.scale.resile_agents", *argv, stdout=PIPE
        )
        assert victim.stdout is not None
        if not await victim.stdout.readline():
            raise RuntimeError("the agent to be lost ended by itself")
        return victim


class Member:
    """A simulated agent."""

    def __init__(self, crowd: Crowd, number: int) -> None:
        self._crowd = crowd
        self._number = number
        self._connection: AgentConnection | None = None
        self._fence = Fence(-1, 0)

    async def run(self) -> None:
        """Take part in the job until cancelled."""
        self._connection, welcome = await self._crowd.enter(self._number)
        self._fence = Fence(welcome.node, welcome.round)
        if self._number == 0:
            print("welcome", flush=True)
        renewing = asyncio.create_task(self._renew(welcome.lease))
        try:
            while True:
                await self._obey(self._connection)
        finally:
            renewing.cancel()

    async def report_failure(self) -> None:
        """Report that the workers failed because a peer was lost."""
        assert self._connection is not None
        await self._connection.send(WorkersFailed(fence=self._fence, failures=(_PEER_LOST,)))

    async def close(self) -> None:
        """End the connection."""
        if self._connection is not None:
            await self._connection.close()

    async def _obey(self, connection: AgentConnection) -> None:
        match await connection.receive():
            case Prepare(round=number, host_store=host_store):
                self._fence = Fence(self._fence.node, number)
                store = _NO_STORE if host_store else None
                await connection.send(Ready(fence=self._fence, store=store))
            case Start():
                self._crowd.note_start()
            case Handover(handover=number):
                await connection.send(HandoverTold(fence=self._fence, able=False, handover=number))

    async def _renew(self, lease: float) -> None:
        assert self._connection is not None
        with contextlib.suppress(Disconnected):
            while True:
                await asyncio.sleep(lease / RENEWALS_PER_LEASE)
                await self._connection.send(Renew(fence=self._fence))


def _say(fact: str, begun: float) -> None:
    print(json.dumps({fact: time.monotonic() - begun}), flush=True)


if __name__ == "__main__":
    main()
