"""Attribution of a failure to the job or to one node. Pure functions of a round.

The job's restarts are for failures that a retry may cure. A node that cannot run the script at all
is not cured by one: if it is needed in the first round, the job fails; if it joins a job that
trains, only that node is dismissed.
"""

from __future__ import annotations

from resile.master.register import Register
from resile.master.roster import Node
from resile.wire.messages import WorkerFailure

__all__ = ["is_newcomers_own", "restarts_used_up", "why_hopeless"]

FIRST_ROUND = 1


def why_hopeless(register: Register, failures: tuple[WorkerFailure, ...], *, needed: bool) -> str:
    """Return why the job can never train, or nothing: in its first round, before any worker reached
    the process group, a node that is ``needed`` cannot even run the script."""
    first = register.round.number == FIRST_ROUND and not register.round.reached
    found = next((failure for failure in failures if failure.cannot_start), None)
    if found is None or not first or register.job.restarts or not needed:
        return ""
    return (
        f"rank {found.rank} cannot run the script ({found.cannot_start}), "
        "and no restart would change that"
    )


def is_newcomers_own(register: Register, node: Node) -> bool:
    """Whether a failure is a newcomer's own: its workers never reached the process group, and those
    of other nodes had in earlier rounds. Not while a member is disconnected: that may be the
    cause."""
    number, members = register.round.number, register.round.members
    if node.record.reached_in or register.roster.limbo.intersection(members):
        return False
    others = [register.roster[member] for member in members if member in register.roster]
    return any(0 < other.record.reached_in < number for other in others)


def restarts_used_up(max_restarts: int) -> str:
    """Return why there is no restart left, for people."""
    match max_restarts:
        case 0:
            return "--max-restarts is 0"
        case 1:
            return "the only restart is used up"
        case many:
            return f"all {many} restarts are used up"
