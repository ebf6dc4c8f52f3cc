"""Roles that train in one world: the first one always has rank 0, and none trains without it."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

from tests.local.up.ups import PROGRAMS, Machine, manifest


def role(places: Path, **more: Any) -> dict[str, Any]:
    return {"script": str(PROGRAMS / "place.py"), "env": {"PLACES": str(places)}, **more}


def worlds(places: Path) -> dict[str, list[list[str]]]:
    """The roles and ranks of all workers of each round, in the order of their global ranks."""
    found: dict[str, list[list[str]]] = {}
    for round_number, *place in map(json.loads, places.read_text().splitlines()):
        found.setdefault(round_number, []).append(place)
    return {number: sorted(one, key=lambda place: int(place[1])) for number, one in found.items()}


def test_the_chief_has_rank_0_in_every_round_and_none_forms_without_it(machine: Machine) -> None:
    places = machine.folder / "places.jsonl"
    roles = {
        "worker": role(places, replicas={"min": 1, "max": 2}, procsPerNode=2),
        "chief": role(places, dependsOn=["worker"]),
    }
    up = machine.up(manifest("led", roles))
    latest = machine.await_training("led", nodes=3)
    for lost in ("chief", "worker"):
        node = next(node for node in machine.nodes("led") if node["role"] == lost)
        os.kill(node["pid"], signal.SIGKILL)
        latest = machine.await_training("led", nodes=3, after=latest)
    up.signal(signal.SIGINT)
    assert up.wait() == 130
    whole = [
        ["chief", "0", "5", "0", "1"],
        *(["worker", str(rank), "5", str(rank - 1), "4"] for rank in range(1, 5)),
    ]
    seen = worlds(places)
    assert sum(one == whole for one in seen.values()) >= 3, seen
    assert all(one[0][:2] == ["chief", "0"] for one in seen.values()), seen
    machine.has_nothing_left()
