"""The rendezvous of each role's nodes."""

from __future__ import annotations

from pathlib import Path

from resile.launch.master_process import KEPT_VARIABLE
from resile.platform.node_env import node_environments
from resile.wire.endpoint import Endpoint
from tests.unit.control.builders import job

MASTER = Endpoint("127.0.0.1", 1000)


def test_all_nodes_meet_at_the_jobs_master_and_leave_it_to_its_keeper() -> None:
    spec = job({"chief": {"script": "a.py"}, "worker": {"module": "b"}, "ps": {}}).spec
    told = node_environments("train", spec, master=MASTER)
    for role in ("chief", "worker", "ps"):
        assert told[role]["PET_RDZV_ENDPOINT"] == "127.0.0.1:1000"
        assert told[role]["PET_RDZV_ID"] == "train"
        assert told[role][KEPT_VARIABLE] == "1"


def test_agents_are_told_the_timeouts_that_the_manifest_asks_for() -> None:
    roles = {"worker": {"script": "a.py"}, "ps": {"script": "b.py"}}
    spec = job(roles, rendezvous={"leaseSeconds": 2.5}).spec
    told = node_environments("train", spec, master=MASTER)
    for role in roles:
        assert "lease=2.5" in told[role]["PET_RDZV_CONF"].split(",")


def test_each_node_joins_its_own_group() -> None:
    roles = ("worker", "tester", "ps", "evaluator")
    spec = job(
        {role: {"script": "a.py"} for role in roles},
        groups={"train": {"roles": ["worker"]}, "test": {"roles": ["tester"]}},
    ).spec
    assert {role: spec.wire_group(role, 1) for role in roles} == {
        "worker": "",
        "tester": "test",
        "ps": "ps/1",
        "evaluator": "evaluator/1",
    }


def test_those_who_train_together_write_one_ledger_and_an_evaluator_none_of_theirs() -> None:
    roles = {"chief": {"script": "a.py"}, "worker": {"script": "a.py"}}
    spec = job({**roles, "evaluator": {"script": "b.py"}}).spec
    ledger = Path("/jobs/train/ledger")
    told = node_environments("train", spec, master=MASTER, ledger=ledger)
    assert {name for name in told if "RESILE_LEDGER" in told[name]} == set(roles)
    assert told["worker"]["RESILE_LEDGER"] == str(ledger)
