"""Sessions of a node for tests, and the messages that take one through a round."""

from __future__ import annotations

from resile.job.elasticity import Elasticity
from resile.wire.messages import NodeInfo, Prepare, Start, StoreAddress, Welcome, WorkerFailure
from resile.wire.session import NodeSession

INFO = NodeInfo(name="n", host="h", address="10.0.0.1", nproc=2)
STORE = StoreAddress("10.0.0.1", 4000)
FAILURE = WorkerFailure(local_rank=0, rank=2, pid=7, exit_code=-9, message="its last words")


def session(*, elasticity: Elasticity | None = None, warm: bool = True) -> NodeSession:
    """A node that has not joined yet."""
    return NodeSession("job", INFO, elasticity=elasticity or Elasticity(), warm=warm)


def welcome(node: int = 5, *, elasticity: Elasticity | None = None, note: str = "") -> Welcome:
    return Welcome(
        node=node, round=0, lease=5, elasticity=elasticity or Elasticity(), note=note, handover=0
    )


def prepare(number: int = 1, *, host_store: bool = True) -> Prepare:
    return Prepare(round=number, group_rank=0, host_store=host_store, reason="why not")


def start(number: int = 1) -> Start:
    return Start(
        round=number,
        group_rank=1,
        group_world_size=2,
        first_rank=2,
        world_size=4,
        store=STORE,
        restart_count=0,
        max_restarts=3,
    )


def run_round(member: NodeSession, number: int = 1) -> None:
    """Advance to a running round; a node without a job joins first."""
    if member.held is None:
        member.obey(welcome(elasticity=member.elasticity))
    member.obey(prepare(number))
    member.ready(number, STORE)
    member.obey(start(number))
    assert member.runs
