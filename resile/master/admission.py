"""Rules for agents that connect: which are refused, which replace a group that has ended. Pure."""

from __future__ import annotations

from resile.job.elasticity import Elasticity
from resile.job.rendezvous_conf import write_setting
from resile.master.records import JobRecord
from resile.wire.messages import Hello, JobDone, NodeInfo, Outcome, Refused

__all__ = ["answer_after_end", "difference", "from_where", "is_replacement", "why_unfit"]


def why_unfit(hello: Hello, *, job: str, elasticity: Elasticity) -> Refused | None:
    """Return the refusal of a node that can never be in this group; None for any other.

    ``job`` is empty while no agent has named it.
    """
    if job and hello.job != job:
        reason = f"this master serves the job '{job}', not '{hello.job}'"
        return Refused(reason=reason, final=True)
    if not elasticity.knows(hello.info.role):
        names = ", ".join(role.name for role in elasticity.roles)
        reason = (
            f"no node of role '{hello.info.role}' trains in this job, only {names}: "
            "give one of these with --role"
        )
        return Refused(reason=reason, final=True)
    return None


def answer_after_end(
    hello: Hello, job: JobRecord, done: JobDone, *, group: str, master_ends: bool
) -> JobDone | Refused:
    """Return the answer to an agent that comes after the end of its group.

    A node that was part of it, or was started for it by a platform, hears how it ended. A node that
    is started anew is meant to train, so it is refused. ``master_ends``: this master ends with the
    job, and another can begin.
    """
    part_of_it = hello.held is not None or hello.seen or hello.info.generation is not None
    if part_of_it:
        return done
    whose = f"the group '{group}' of " if group else ""
    over = f"{whose}the job '{job.job}' is over ({done.outcome.value}: {done.reason})"
    if master_ends:
        return Refused(reason=f"{over}, and its master is about to go")
    reason = f"{over}, and nothing was run here: start another master for another job"
    return Refused(reason=reason, final=True)


def is_replacement(hello: Hello, job: JobRecord) -> bool:
    """Whether the group has ended, and this node was started in order that it goes on.

    A platform's replacement is newer than every node that ever joined; without a platform a person
    started it. A group that a person stopped stays so.
    """
    over = job.outcome not in (None, Outcome.STOPPED)
    if not over or not job.elasticity.independent or hello.held is not None:
        return False
    if why_unfit(hello, job=job.job, elasticity=job.elasticity):
        return False
    generation = hello.info.generation
    if generation is None:
        return not hello.seen
    return job.newest is None or generation > job.newest


def from_where(info: NodeInfo) -> str:
    """Return `` from HOST``, or nothing for a pod, which is its own host."""
    return "" if info.host == info.name else f" from {info.host}"


def difference(ours: Elasticity, theirs: Elasticity) -> str:
    """Describe what a newcomer asked for and does not get, as the job was agreed on otherwise."""
    fields = Elasticity.__struct_fields__
    names = [name for name in fields if getattr(ours, name) != getattr(theirs, name)]
    changed = ", ".join(f"{name}={write_setting(getattr(ours, name))}" for name in names)
    return f"the job runs with {changed}" if changed else ""
