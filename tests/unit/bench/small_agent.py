"""A very small launcher: `small_agent.py MODE PORT WORLD RANK...` keeps one worker per rank.

It forks workers that write step records, and restarts all of them when one dies. The agent of rank
0 also starts a listening process that simulates a master. In mode "exit" it exits with 3 at once.
"""

import contextlib
import json
import os
import signal
import socket
import sys
import time


def main() -> None:
    mode, port, world, *ranks = sys.argv[1:]
    if mode == "exit":
        sys.exit(3)
    if mode == "listen":
        listen(int(port))
    if "0" in ranks:
        start_master(port, world)
    while True:
        run_workers([int(rank) for rank in ranks], int(world))


def run_workers(ranks: list[int], world: int) -> None:
    """Run one generation of workers, until the first of them dies; then kill the others."""
    workers = [fork_worker(rank, world) for rank in ranks]
    while os.wait()[0] not in workers:
        pass
    for pid in workers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def start_master(port: str, world: str) -> None:
    if os.fork() == 0:
        os.execv(sys.executable, [sys.executable, "-S", __file__, "listen", port, world])


def listen(port: int) -> None:
    server = socket.create_server(("127.0.0.1", port))
    while True:
        server.accept()[0].close()


def fork_worker(rank: int, world: int) -> int:
    if pid := os.fork():
        return pid
    events = os.open(os.environ["BENCH_EVENTS"], os.O_WRONLY | os.O_APPEND)
    identity = {
        "node": int(os.environ["BENCH_NODE"]),
        "rank": rank,
        "world": world,
        "pid": os.getpid(),
        "restart": 0,
    }
    step = 0
    while True:
        time.sleep(0.01)
        record = {"time": time.monotonic(), "step": step, **identity}
        os.write(events, json.dumps(record).encode() + b"\n")
        step += 1


if __name__ == "__main__":
    main()
