"""The workers' environment besides torchrun's variables."""

from __future__ import annotations

import pytest

from resile.agent.worker_env import node_environment


@pytest.mark.parametrize("name", ["THP_MEM_ALLOC_ENABLE", "PYTHONUNBUFFERED"])
def test_what_is_set_for_workers_is_the_users_to_change(name: str) -> None:
    def found(**inherited: str) -> str:
        return node_environment(inherited, nproc=1, address="127.0.0.1", master="m:1")[name]

    assert found() == "1"
    assert found(**{name: "0"}) == "0"


def test_workers_know_their_group_if_it_is_not_the_main_one() -> None:
    def found(group: str) -> str | None:
        told = node_environment({}, nproc=1, address="127.0.0.1", master="m:1", group=group)
        return told.get("RESILE_GROUP")

    assert found("worker/3") == "worker/3"
    assert found("") is None
