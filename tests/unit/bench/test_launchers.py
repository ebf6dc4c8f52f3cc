"""The command lines of each adapter."""

from pathlib import Path

import pytest

from bench.campaign import chosen_launchers
from bench.launchers import LAUNCHERS, Resile, Shape, Site, Torchrun, base_environment
from bench.measures import LAUNCH, RECOVERY, STEADY


def site(shape: Shape) -> Site:
    return Site("job", shape, Path("/nowhere"), port=1234, spare_port=1235)


def test_one_node_stands_alone_and_several_meet_at_the_endpoint() -> None:
    alone = Torchrun().agent(site(Shape(1, 1, 2)), 0).argv
    assert "--standalone" in alone
    meeting = Torchrun().agent(site(Shape(1, 2, 1)), 1).argv
    assert "--rdzv-endpoint=127.0.0.1:1234" in meeting
    assert "--nnodes=1:2" in meeting
    assert "--nnodes=2" in Torchrun().agent(site(Shape(2, 2, 1)), 0).argv


def test_only_the_private_store_variants_ask_for_it() -> None:
    variable = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"
    assert variable not in Torchrun().agent(site(Shape(1, 1, 2)), 0).env
    private = Torchrun("x", "x", private_store=True).agent(site(Shape(1, 1, 2)), 0)
    assert private.env[variable] == "1"


def test_the_master_is_told_from_an_agent_of_the_same_program() -> None:
    resile = Resile()
    assert resile.is_master(["python", "-m", "resile", "master", "--job", "x"])
    assert resile.is_master(["python", "/bin/resile", "master"])
    assert not resile.is_master(["python", "/bin/resile", "run", "train.py", "master"])


def test_the_environment_carries_nothing_that_configures_a_launcher(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PET_NNODES", "7")
    monkeypatch.setenv("RESILE_TOKEN", "x" * 20)
    monkeypatch.setenv("HARMLESS", "1")
    environment = base_environment()
    assert environment["HARMLESS"] == "1"
    assert not {"PET_NNODES", "RESILE_TOKEN"} & environment.keys()


def test_a_family_names_all_its_variants() -> None:
    assert [one.name for one in chosen_launchers(["dlrover"])] == ["dlrover", "dlrover-tuned"]
    assert [one.name for one in chosen_launchers(["torchrun-etcd"])] == ["torchrun-etcd"]


def test_experiments_name_launchers_that_exist_and_measures_once() -> None:
    experiments = (*RECOVERY, *LAUNCH, *STEADY)
    known = {launcher.name for launcher in LAUNCHERS}
    assert all(set(one.launchers) <= known for one in experiments)
    names = [measure.name for one in experiments for measure in one.measures]
    assert len(names) == len(set(names))
