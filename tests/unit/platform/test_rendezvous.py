"""Where each role's nodes meet."""

from __future__ import annotations

from pathlib import Path

from resile.platform.rendezvous import node_environments, roles_apart
from resile.wire.endpoint import Endpoint
from resile.wire.launching import KEPT_VARIABLE
from tests.unit.control.builders import job

MASTER, OWN = Endpoint("127.0.0.1", 1000), Endpoint("127.0.0.1", 2000)


def test_training_roles_meet_at_the_jobs_master_and_leave_it_to_its_keeper() -> None:
    spec = job({"chief": {"script": "a.py"}, "worker": {"module": "b"}}).spec
    told = node_environments("train", spec, master=MASTER, apart={})
    for role in ("chief", "worker"):
        assert told[role]["PET_RDZV_ENDPOINT"] == "127.0.0.1:1000"
        assert told[role]["PET_RDZV_ID"] == "train"
        assert told[role][KEPT_VARIABLE] == "1"


def test_agents_are_told_the_patience_that_the_manifest_asks_for() -> None:
    spec = job({"worker": {"script": "a.py"}}, rendezvous={"leaseSeconds": 2.5}).spec
    told = node_environments("train", spec, master=MASTER, apart={})
    assert "lease=2.5" in told["worker"]["PET_RDZV_CONF"].split(",")


def test_an_evaluator_with_a_script_meets_elsewhere_and_keeps_its_own_master() -> None:
    spec = job({"worker": {"script": "a.py"}, "evaluator": {"script": "b.py"}, "ps": {}}).spec
    assert roles_apart(spec) == ("evaluator",)
    told = node_environments("train", spec, master=MASTER, apart={"evaluator": OWN})
    assert told["evaluator"]["PET_RDZV_ENDPOINT"] == "127.0.0.1:2000"
    assert told["evaluator"]["PET_RDZV_ID"] == "train-evaluator"
    assert not told["evaluator"][KEPT_VARIABLE]
    assert told["ps"]["PET_RDZV_ENDPOINT"] == "127.0.0.1:1000"


def test_those_who_train_together_write_one_ledger_and_an_evaluator_none_of_theirs() -> None:
    roles = {"chief": {"script": "a.py"}, "worker": {"script": "a.py"}}
    spec = job({**roles, "evaluator": {"script": "b.py"}}).spec
    ledger = Path("/jobs/train/ledger")
    told = node_environments("train", spec, master=MASTER, apart={"evaluator": OWN}, ledger=ledger)
    assert {name for name in told if "RESILE_LEDGER" in told[name]} == set(roles)
    assert told["worker"]["RESILE_LEDGER"] == str(ledger)
