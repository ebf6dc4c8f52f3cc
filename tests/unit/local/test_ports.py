"""The ports of a job's ranks on one machine: kept, never shared, and free when they are needed."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from resile.local.errors import NoPortError
from resile.local.ports import (
    LOWEST,
    PortAllocator,
    candidates,
    is_free,
    kernel_range,
    read_ports,
)

WANTED = {("ps", rank): ("rpc", "web") for rank in range(5)}


def book(folder: Path, name: str = "ports.json", **more: object) -> PortAllocator:
    return PortAllocator(folder / name, lock=folder / "lock", **more)  # type: ignore[arg-type]


def listening(port: int) -> socket.socket:
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("127.0.0.1", port))
    made.listen()
    return made


def test_ports_are_kept_and_no_two_ranks_have_the_same(tmp_path: Path) -> None:
    first = book(tmp_path)
    first.reserve(WANTED)
    chosen = {slot: dict(named) for slot, named in first.ports.items()}
    assert len({port for named in chosen.values() for port in named.values()}) == 10
    first.reserve({**WANTED, ("worker", 0): ()})
    assert {slot: first.ports[slot] for slot in WANTED} == chosen
    again = book(tmp_path)
    again.reserve(WANTED)
    assert {slot: again.ports[slot] for slot in WANTED} == chosen
    assert read_ports(tmp_path / "ports.json") == chosen


def test_ports_lie_outside_of_the_kernels_own(tmp_path: Path) -> None:
    made = book(tmp_path)
    made.reserve(WANTED)
    first, last = kernel_range()
    assert all(not first <= port <= last for each in made.ports.values() for port in each.values())


def test_where_the_kernel_takes_nearly_all_for_itself_any_port_is_used() -> None:
    assert min(candidates((1024, 65000))) == LOWEST
    assert max(candidates((32768, 60999))) == 65535
    assert 29400 not in candidates((32768, 60999))
    assert not set(candidates((32768, 60999))) & set(range(32768, 61000))


def test_a_port_that_is_taken_is_exchanged_for_the_first_node_and_kept_for_the_second(
    tmp_path: Path,
) -> None:
    made = book(tmp_path)
    made.reserve(WANTED)
    before = dict(made.ports["ps", 0])
    with listening(before["rpc"]):
        assert not is_free(before["rpc"])
        made.starting(("ps", 0))
    after = dict(made.ports["ps", 0])
    assert after["rpc"] != before["rpc"]
    assert after["web"] == before["web"]
    with listening(after["rpc"]):
        made.starting(("ps", 0))
    assert made.ports["ps", 0] == after
    assert read_ports(tmp_path / "ports.json")["ps", 0] == after


def test_the_ports_of_other_jobs_are_left_to_them(tmp_path: Path) -> None:
    everything = set(candidates(kernel_range()))
    left = set(sorted(everything)[:50])
    made = book(tmp_path, others=lambda: everything - left)
    made.reserve({("ps", 0): ("rpc",)})
    assert made.ports["ps", 0]["rpc"] in left


def test_without_a_free_port_that_is_said(tmp_path: Path) -> None:
    made = book(tmp_path, others=lambda: set(candidates(kernel_range())))
    with pytest.raises(NoPortError):
        made.reserve({("ps", 0): ("rpc",)})


def test_names_that_a_role_has_no_more_are_forgotten(tmp_path: Path) -> None:
    made = book(tmp_path)
    made.reserve({("ps", 0): ("rpc", "web")})
    rpc = made.ports["ps", 0]["rpc"]
    made.reserve({("ps", 0): ("rpc",)})
    assert made.ports["ps", 0] == {"rpc": rpc}


def test_a_file_that_cannot_be_read_is_as_good_as_none(tmp_path: Path) -> None:
    (tmp_path / "ports.json").write_text("{")
    assert read_ports(tmp_path / "ports.json") == {}
    assert read_ports(tmp_path / "nothing") == {}
