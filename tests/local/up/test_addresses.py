"""Servers and independent workers: each finds the others, also after changes."""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

from resile.job.addresses import Addresses, decode_addresses
from tests.local.commands import wait_for
from tests.local.up.ups import PROGRAMS, Machine, manifest


class Asked:
    """A job of two or three servers and three workers, and the workers' records."""

    def __init__(self, machine: Machine, **spec: Any) -> None:
        self.machine = machine
        self.gate, self.end = machine.folder / "gate", machine.folder / "end"
        self.again, self.answers = machine.folder / "again", machine.folder / "answers.jsonl"
        worker = {
            "command": [sys.executable, str(PROGRAMS / "asker.py")],
            "replicas": 3,
            "dependsOn": ["ps"],
            "env": {
                "ANSWERS": str(self.answers),
                "GATE_END": str(self.end),
                "ASK_AGAIN": str(self.again),
            },
        }
        ps = {
            "kind": "Server",
            "command": [sys.executable, str(PROGRAMS / "server.py")],
            "replicas": {"min": 2, "max": 3, "wanted": 2},
            "ports": {"rpc": 7000},
            "env": {"GATE": str(self.gate)},
        }
        self.up = machine.up(manifest("ctr", {"ps": ps, "worker": worker}, **spec))

    def addresses(self) -> Addresses:
        return decode_addresses(self.machine.job("ctr").addresses.read_bytes())

    def lines(self) -> list[dict[str, Any]]:
        try:
            return [json.loads(line) for line in self.answers.read_text().splitlines()]
        except FileNotFoundError:
            return []

    def await_lines(self, number: int, what: str, **like: Any) -> list[dict[str, Any]]:
        def found() -> list[dict[str, Any]]:
            lines = [line for line in self.lines() if like.items() <= line.items()]
            return lines if len(lines) >= number else []

        try:
            return wait_for(found, what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.up.output[-4000:]}\n{self.lines()}") from None

    def node(self, role: str, rank: int) -> dict[str, Any]:
        nodes = self.machine.nodes("ctr")
        return next(one for one in nodes if (one["role"], one["rank"]) == (role, rank))

    def finish(self) -> None:
        self.end.touch()
        assert self.up.wait() == 0, self.up.output
        self.machine.has_nothing_left()


def servers(line: dict[str, Any]) -> dict[str, int]:
    return {rank: port for rank, (port, _) in line["servers"].items()}


def test_workers_wait_until_servers_are_ready_and_find_them(machine: Machine) -> None:
    job = Asked(machine)
    running = machine.await_nodes("ctr", role="ps", phase="Running")
    wait_for(lambda: len(machine.await_nodes("ctr", role="ps", phase="Running")) == 2, "2 servers")
    waiting = machine.await_nodes("ctr", role="worker", reason="WaitsForRole")
    assert all(one["message"] == "waits for ps (0 of 2 ready)" for one in waiting), running
    assert not job.lines()
    job.gate.touch()
    lines = job.await_lines(3, "all workers to have asked")
    known = job.addresses()
    assert {line["rank"] for line in lines} == {0, 1, 2}
    for line in lines:
        said = {rank: words.split()[:2] for rank, (_, words) in line["servers"].items()}
        assert said == {"0": ["ps", "0"], "1": ["ps", "1"]}
        assert servers(line) == {str(one.rank): one.ports["rpc"] for one in known.of("ps")}
    assert {one.host for each in known.roles.values() for one in each} == {"127.0.0.1"}
    assert len({one.ports["rpc"] for one in known.of("ps")}) == 2
    assert all(one.ports == {} for one in known.of("worker"))
    assert machine.addresses_at_master("ctr") == known
    job.finish()


def test_a_killed_worker_stops_nobody_and_a_killed_server_comes_back_at_its_port(
    machine: Machine,
) -> None:
    job = Asked(machine, names={"node": "{job}-{role}-{rank}"})
    job.gate.touch()
    before = {line["rank"]: line for line in job.await_lines(3, "all workers to have asked")}
    os.kill(before[1]["pid"], signal.SIGKILL)
    (new,) = job.await_lines(1, "the worker's replacement", rank=1, node=5)
    assert servers(new) == servers(before[1])
    server = new["servers"]["0"][1].split()[2]
    os.kill(int(server), signal.SIGKILL)
    replaced = wait_for(lambda: job.node("ps", 0)["id"] == 6 and job.node("ps", 0), "a new server")
    job.again.touch()

    def answered() -> dict[str, Any] | None:
        for line in job.lines():
            words = line["servers"]["0"][1].split()
            if words and words[2] != server:
                return line
        return None

    line = wait_for(answered, "the new server to answer")
    assert line is not None
    assert servers(line) == servers(new)
    assert {one["pid"] for one in job.lines() if one["rank"] != 1} == {
        before[0]["pid"],
        before[2]["pid"],
    }
    # With {rank} in the pattern of names, a replacement has the same name and continues the log.
    assert replaced["name"] == "ctr-ps-0"
    assert {file.node for file in machine.job("ctr").log_files()} == {
        *(f"ctr-ps-{rank}" for rank in range(2)),
        *(f"ctr-worker-{rank}" for rank in range(3)),
    }
    assert machine.says("logs", "ctr", "ps-0").splitlines() == ["serving as 0", "serving as 6"]
    job.finish()
    assert machine.says("logs", "ctr", "ps", "--prefix").splitlines() == [
        "[ctr-ps-0] serving as 0",
        "[ctr-ps-0] serving as 6",
        "[ctr-ps-1] serving as 1",
    ]


def test_a_role_that_is_scaled_is_seen_in_the_file_and_a_master_that_was_killed_knows_it_again(
    machine: Machine,
) -> None:
    job = Asked(machine)
    job.gate.touch()
    job.await_lines(3, "all workers to have asked")
    two = job.addresses()
    os.kill(machine.master_pid(), signal.SIGKILL)

    def told_again() -> bool:
        try:
            return machine.addresses_at_master("ctr") == two
        except Exception:
            return False

    wait_for(told_again, "the new master to know the addresses")
    machine.says("scale", "ctr", "ps=3")

    def seen() -> list[dict[str, Any]]:
        return [line for line in job.lines() if len(line["servers"]) == 3]

    lines = wait_for(lambda: len(seen()) >= 3 and seen(), "all workers to see three servers")
    three = job.addresses()
    assert three.of("ps")[:2] == two.of("ps")
    assert three.of("worker") == two.of("worker")
    assert all(
        servers(line) == {str(n.rank): n.ports["rpc"] for n in three.of("ps")} for line in lines
    )
    job.finish()


def test_the_next_up_has_the_same_ports(machine: Machine) -> None:
    ports = []
    for _ in range(2):
        job = Asked(machine)
        job.gate.touch()
        job.await_lines(3, "all workers to have asked")
        ports.append(job.addresses().of("ps"))
        job.finish()
        for file in (job.answers, job.end, job.gate):
            file.unlink(missing_ok=True)
    assert ports[0] == ports[1]
    assert (machine.job("ctr").path / "ports.json").exists()
    machine.says("delete", "ctr")
    assert not machine.job("ctr").path.exists()


def test_the_log_of_a_node_that_was_replaced_is_found_by_its_role_whatever_the_pattern(
    machine: Machine,
) -> None:
    job = Asked(machine, names={"node": "{job}-edljob-{role}-{serial}"})
    job.gate.touch()
    line = job.await_lines(3, "all workers to have asked")[0]
    os.kill(int(line["servers"]["1"][1].split()[2]), signal.SIGKILL)
    wait_for(lambda: job.node("ps", 1)["name"] == "ctr-edljob-ps-2", "a new server")
    wait_for(lambda: "serving as 5" in machine.says("logs", "ctr", "ps"), "its output")
    job.finish()
    assert machine.says("logs", "ctr", "ps", "--prefix").splitlines() == [
        "[ctr-edljob-ps-0] serving as 0",
        "[ctr-edljob-ps-1] serving as 1",
        "[ctr-edljob-ps-2] serving as 5",
    ]
