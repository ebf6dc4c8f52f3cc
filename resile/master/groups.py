"""All groups of a job.

A group is a set of nodes that share one world. A job has a main group, whose name is empty, and any
number of others: a second world that trains in lockstep, or a world of one node for each
independent worker and server. Each has a :class:`Membership` of its own, with its own ids, rounds,
restarts and end; a job has one list of events.

A group is created by the first agent that names it. Its sizes and timeouts are those that the job's
controller published for it, or else those of that agent.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from resile.job.elasticity import Elasticity
from resile.job.limits import MAX_NODES
from resile.master.admission import is_replacement, why_unfit
from resile.master.effects import EffectBatch, Effects
from resile.master.membership import Membership
from resile.master.records import DIRECTIVES_KEY, MAIN, DirectivesRecord, JobRecord, StoredState
from resile.master.state import GroupState
from resile.wire.directive import Directive, GroupDirective
from resile.wire.messages import Fenced, Hello, JobDone, Refused

__all__ = [
    "DeadlineQueue",
    "Groups",
    "MOST_GROUPS",
    "MasterInfo",
]


SLACK = 64
"""Outdated entries that may stay in the heap beyond one for each group."""


class DeadlineQueue:
    """Deadlines by name. A heap entry that is not the latest of its name is outdated."""

    def __init__(self) -> None:
        self._when: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []

    def set(self, name: str, when: float | None) -> None:
        """Set the deadline of a name; None removes it."""
        if when is None:
            self._when.pop(name, None)
        elif self._when.get(name) != when:
            self._when[name] = when
            heapq.heappush(self._heap, (when, name))
        if len(self._heap) > 2 * len(self._when) + SLACK:
            self._heap = [(at, one) for one, at in self._when.items()]
            heapq.heapify(self._heap)

    def next(self) -> float | None:
        """Return the earliest deadline."""
        while self._heap and self._when.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def take_due(self, now: float) -> list[str]:
        """Remove every deadline that is over; return the names, the earliest first."""
        due = []
        while (earliest := self.next()) is not None and earliest <= now:
            _, name = heapq.heappop(self._heap)
            del self._when[name]
            due.append(name)
        return due


MOST_GROUPS = MAX_NODES
"""Every group has a node, so no valid job has more. Groups cost memory for as long as the master
runs, and a faulty agent must not create them without limit."""


@dataclass(frozen=True)
class MasterInfo:
    """Facts about the master that all groups need."""

    pid: int = 0
    ends_with_job: bool = False
    """Whether it exits when the job is over, so that another can start."""

    how_to_discard: str = ""
    """How a person discards the job in the store, instead of continuing it."""


class Groups:
    """The groups of one job. To change one, get it with :meth:`touch`, so that its deadlines are
    checked again."""

    def __init__(
        self,
        main: Membership,
        others: Iterable[Membership] = (),
        *,
        about: MasterInfo = MasterInfo(),
        directives: Mapping[str, GroupDirective] | None = None,
        forgotten: bool = False,
    ) -> None:
        """``forgotten``: the job is known to have trained, but its state is lost."""
        self.main = main
        self._about = about
        self._members = {one.name: one for one in (main, *others)}
        self._directives = dict(directives or {})
        self._deadlines = DeadlineQueue()
        self._touched = set(self._members)
        self._forgotten_until = float("inf") if forgotten else float("-inf")

    @classmethod
    def begin(
        cls, job: JobRecord, *, effects: Effects, about: MasterInfo, forgotten: bool = False
    ) -> Groups:
        """Start a job of which nothing is known but ``job``."""
        state = GroupState(job, effects=effects)
        state.master_pid = about.pid
        main = Membership(state, forgotten=forgotten, ends_with_job=about.ends_with_job)
        return cls(main, about=about, forgotten=forgotten)

    @classmethod
    def restore(
        cls, memory: StoredState, *, effects: Effects, about: MasterInfo, now: float
    ) -> Groups:
        """Continue from the records of a store."""
        main, *others = (
            _restored(GroupState.restore(one, effects=effects, now=now), about, now)
            for one in (memory, *memory.groups)
        )
        return cls(main, others, about=about, directives=memory.directives.groups)

    # --- reading ----------------------------------------------------------------------------

    @property
    def effects(self) -> Effects:
        """Effects and events of all groups."""
        return self.main.effects

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Membership]:
        return iter(self._members.values())

    def get(self, name: str) -> Membership | None:
        """Return the group of this name, for reading."""
        return self._members.get(name)

    @property
    def others(self) -> list[Membership]:
        """All groups but the main one."""
        return [one for one in self._members.values() if one is not self.main]

    @property
    def over(self) -> bool:
        """Whether every group that ever had a node has ended, and there was one."""
        begun = [one for one in self if one.begun]
        return bool(begun) and all(one.job.outcome for one in begun)

    @property
    def deserted(self) -> bool:
        """Whether every group that is not over was left by its nodes on purpose."""
        going = [one for one in self if one.begun and not one.job.outcome]
        return all(one.job.left_on_purpose for one in going)

    @property
    def occupied(self) -> bool:
        """Whether a group that is not over has nodes, or is recovering its state from them."""
        return any((one.nodes or one.recovering) and not one.job.outcome for one in self)

    # --- agents -----------------------------------------------------------------------------

    def hello(self, hello: Hello, *, now: float) -> int | Fenced | JobDone | Refused:
        """An agent connected: return the id of its node in its group, or the refusal."""
        if self._forgotten_until == float("inf"):
            timeout = hello.elasticity.lease + hello.elasticity.leave_timeout
            self._forgotten_until = now + timeout
        group = self.touch(hello.group)
        if group is None:
            terms = self._terms(hello)
            if refusal := self._why_not(hello, terms):
                return refusal
            group = self._add(hello, terms, now)
        elif is_replacement(hello, group.job):
            group.begin_anew(self._terms(hello), now=now)
        return group.hello(hello, now=now)

    def touch(self, name: str) -> Membership | None:
        """Return the group of this name, for a change: the next :meth:`tick` considers it."""
        group = self._members.get(name)
        if group is not None:
            self._touched.add(name)
        return group

    def _terms(self, hello: Hello) -> Elasticity:
        directive = self._directives.get(hello.group)
        return directive.elasticity if directive is not None else hello.elasticity

    def _why_not(self, hello: Hello, terms: Elasticity) -> Refused | None:
        """Return the refusal to create a group for this agent, or None."""
        if unfit := why_unfit(hello, job=self.main.job.job, elasticity=terms):
            return unfit
        if len(self._members) >= MOST_GROUPS:
            return Refused(reason=f"a job may have at most {MOST_GROUPS} groups", final=True)
        return None

    def _add(self, hello: Hello, terms: Elasticity, now: float) -> Membership:
        self.main.name_job(hello.job)
        directive = self._directives.get(hello.group)
        job = JobRecord(
            job=hello.job,
            elasticity=terms,
            run=_run_of(self.main.job.run, hello.group),
            wanted=None if directive is None else directive.wanted_nodes,
            resting=self.main.job.resting,
        )
        state = GroupState(job, group=hello.group, effects=self.effects)
        state.master_pid = self._about.pid
        state.set_job()  # a group's other records are found by this one
        group = Membership(state, forgotten=now < self._forgotten_until)
        self._members[hello.group] = group
        self._touched.add(hello.group)
        return group

    # --- the controller and people ----------------------------------------------------------

    def follow(self, directive: Directive, *, now: float) -> None:
        """Do as the job's controller wants, in the main group and the others."""
        main = self.main
        main.adapt(directive.elasticity, now=now)
        if directive.holders == 0:
            self.nobody_holds_anything(now=now)
        if directive.wanted_nodes is not None and not main.job.outcome:
            main.want(directive.wanted_nodes, now=now)
        self.direct(directive.groups, now=now)
        self.rest(directive.resting, now=now)

    def direct(self, directives: Mapping[str, GroupDirective], *, now: float) -> None:
        """Apply the controller's directives to groups other than the main one, now and later."""
        if directives != self._directives:
            self._directives = dict(directives)
            self.effects.put(DIRECTIVES_KEY, DirectivesRecord(groups=self._directives))
        for name, directive in directives.items():
            group = self.touch(name)
            if group is not None and not group.job.outcome:
                group.adapt(directive.elasticity, now=now)
                if directive.wanted_nodes is not None:
                    group.want(directive.wanted_nodes, now=now)

    def rest(self, resting: bool, *, now: float) -> None:
        """Suspend or resume the job: while suspended, missing nodes are not waited for."""
        for group in self._touch_all():
            group.rest(resting, now=now)

    def nobody_holds_anything(self, *, now: float) -> None:
        """Stop waiting for nodes that this master might not know of: all of them are gone."""
        self._forgotten_until = float("-inf")
        for group in self._touch_all():
            group.nobody_holds_anything(now=now)

    def stop(self, reason: str, *, now: float) -> None:
        """End the job on a person's request."""
        for group in self._touch_all():
            group.stop(reason, now=now)

    def _touch_all(self) -> Iterable[Membership]:
        self._touched.update(self._members)
        return self._members.values()

    # --- time -------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        """Return when :meth:`tick` has to be called next, if nothing happens before."""
        return self._deadlines.next()

    def tick(self, now: float) -> None:
        """Act on every deadline that is over, and on every group changed since the last call."""
        touched, self._touched = self._touched, set()
        for name in sorted(touched.union(self._deadlines.take_due(now))):
            group = self._members[name]
            group.tick(now)
            self._deadlines.set(name, group.next_deadline(now))

    def pending_effects(self) -> EffectBatch:
        """Return everything that was decided since the last call, in all groups."""
        return self.effects.take()


def _restored(state: GroupState, about: MasterInfo, now: float) -> Membership:
    state.master_pid = about.pid
    return Membership.restore(
        state,
        now=now,
        ends_with_job=about.ends_with_job and state.group == MAIN,
        how_to_discard=about.how_to_discard,
    )


def _run_of(run: str, group: str) -> str:
    """The run id of a group, whose rounds are counted apart from those of other groups."""
    return hashlib.blake2b(f"{run}/{group}".encode(), digest_size=8).hexdigest()
