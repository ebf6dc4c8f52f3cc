"""Two thousand random histories: whatever happens in whatever order, the job recovers.

`make test` runs 2,000 histories of 60 steps each. For more of them:

    RESILE_HISTORIES=20000 pytest tests/unit/master/test_membership_properties.py

Each history comes from a seed of its own, so the same ones run everywhere; one that fails is
shrunk and printed step by step.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Sequence

import msgspec
import pytest

from resile.job.elasticity import Elasticity
from resile.master.membership import Membership
from resile.wire.messages import LocalState, Outcome
from tests.unit.master.model import Model, PretendAgent

HISTORIES = int(os.environ.get("RESILE_HISTORIES", "2000"))
STEPS = 60
ROLES = ("chief", "worker")
GROUPS = ("", "evaluate", "worker/0")
"""Of every second history: a main group, another one in lockstep, and an independent worker."""
WAITS = (0.01, 0.06, 0.3, 1.0, 6.0)

Step = tuple[int, ...]
"""The event, and two numbers that select its target and details."""


class History:
    """Joins, disconnects, kills, failures, deaths of the master and time, in random order.

    ``Model.check`` asserts the guarantees at every message. At the end all live agents come back,
    and every group has to train with as many of them as it may use, none of them waiting. Then all
    their workers succeed, and so must every group.
    """

    def __init__(self, sizes: bytes) -> None:
        patience = {"max_restarts": 1000, "join_timeout": 1e8}
        success = ("all", "first", "any", "all")[sizes[1] >> 6]
        self.groups = GROUPS if sizes[2] & 64 else GROUPS[:1]
        terms = {
            "evaluate": {"min_nodes": 1, "max_nodes": 1 + sizes[0] % 2, "success": "all"},
            "worker/0": {"independent": True},
        }
        self.model = Model(
            **_nodes(sizes),
            **patience,
            success=success,
            terms={
                name: msgspec.convert({**own, **patience}, Elasticity)
                for name, own in terms.items()
            },
        )
        self.told: list[str] = []
        self._steps: list[Callable[[int, int], bool]] = [
            *(self.join, self.join, self.join, self.wait, self.wait, self.wait, self.wait),
            *(self.warm_up, self.cut, self.come_back, self.come_back, self.kill, self.leave),
            *(self.ask_to_leave, self.fail, self.fail, self.slowness, self.replace),
            *(self.crash_master, self.crash_master_before_it_sends, self.lose_memory),
            *(self.doom_master, self.save_late, self.reach, self.report, self.succeed),
            *(self.change_that_kills, self.change_that_kills, self.settle_down),
            self.success_of_the_lost,
        ]

    def step(self, choice: int, first: int, second: int) -> None:
        """Run the event that the numbers select, or the next one that is possible now."""
        for offset in range(len(self._steps)):
            event = self._steps[(choice + offset) % len(self._steps)]
            if event(first, second):
                self.told.append(f"{event.__name__}({first}, {second})")
                return

    def end(self) -> None:
        """All live agents come back, and nothing more happens."""
        model = self.model
        model.answering, model.dies_in = True, None
        self.answer_all()
        for agent in model.agents.values():
            agent.warm = True
            if agent.connected and agent.node is not None:
                model.warm_up(agent)
        # A forgotten node is asked to wait, evicted, and admitted; others may be slow to save.
        for _ in range(10):
            model.reconnect_all()
            model.advance(7)
        for group in model.groups:
            if group.job.outcome:
                continue
            if not group.training or not group.round.succeeded:
                self._trains(group)
            if group.training:
                self._all_succeed(group)

    def _trains(self, group: Membership) -> None:
        elasticity = self.model.elasticity_of(group.name)
        agents = [one for one in self.model.agents.values() if one.group == group.name]
        here = Counter(elasticity.role_of(one.role) for one in agents)
        expected = sum(elasticity.world(here).values())
        running = self.model.running_in(group.name)
        assert len(running) == expected, (group.name, expected, group.effects.events)

    def _all_succeed(self, group: Membership) -> None:
        for name in sorted(self.model.running_in(group.name)):
            if not group.job.outcome:
                self.model.succeed(self.model.agents[name])
        assert group.job.outcome is Outcome.SUCCEEDED, (group.name, group.effects.events)

    # --- what may happen; False if it cannot now --------------------------------------------

    def _pick(self, index: int) -> PretendAgent | None:
        agents = list(self.model.agents.values())
        return agents[index % len(agents)] if agents else None

    def _pick_connected(self, index: int) -> PretendAgent | None:
        agent = self._pick(index)
        there = agent is not None and agent.connected and agent.node is not None
        return agent if there else None

    def join(self, about: int, rank: int) -> bool:
        if len(self.model.agents) >= 8:
            return False
        self.model.join(
            group=self.groups[(about >> 2) % len(self.groups)],
            nproc=1 + about % 3,
            role=ROLES[about % 5 > 1],
            rank=rank % 4 if rank % 2 else None,
            warm=bool(about & 48),
            saves=bool(about & 192),
            slow=rank & 12 == 12,
        )
        return True

    def wait(self, index: int, _: int) -> bool:
        self.model.advance(WAITS[index % len(WAITS)])
        return True

    def warm_up(self, index: int, _: int) -> bool:
        if agent := self._pick_connected(index):
            self.model.warm_up(agent)
        return agent is not None

    def cut(self, index: int, _: int) -> bool:
        if agent := self._pick(index):
            self.model.cut(agent)
        return agent is not None

    def come_back(self, index: int, _: int) -> bool:
        agent = self._pick(index)
        if agent is None or agent.connected:
            return False
        self.model.connect(agent)
        return True

    def kill(self, index: int, _: int) -> bool:
        if agent := self._pick(index):
            self.model.kill(agent)
        return agent is not None

    def leave(self, index: int, _: int) -> bool:
        if agent := self._pick_connected(index):
            self.model.leave(agent)
        return agent is not None

    def ask_to_leave(self, index: int, _: int) -> bool:
        if agent := self._pick_connected(index):
            self.model.ask_to_leave(agent)
        return agent is not None

    def save_late(self, index: int, _: int) -> bool:
        """Slow workers finally reach the step."""
        agent = self._pick(index)
        if agent is None or not agent.asked or agent.holding:
            return False
        self.model.save(agent)
        self.model.settle()
        return True

    def _running(self) -> list[str]:
        """Names of all agents of all groups whose workers train."""
        return sorted(name for group in GROUPS for name in self.model.running_in(group))

    def succeed(self, index: int, seldom: int) -> bool:
        """Workers of a node succeed; if it is the last one's, so does its group."""
        names = self._running()
        if not names or seldom % 4:
            return False
        agent = self.model.agents[names[index % len(names)]]
        if agent.connected:
            self.model.succeed(agent)
        else:
            agent.state = LocalState.SUCCEEDED
            agent.go_on()
        return True

    def success_of_the_lost(self, index: int, seldom: int) -> bool:
        """Workers of a node succeed, the node is lost, and the master dies after it."""
        names = self._running()
        if len(names) < 2 or not self.succeed(index, seldom):
            return False
        agent = self.model.agents.get(names[index % len(names)])
        if agent is not None:
            self.model.kill(agent)
        self.model.advance(1)
        self.model.crash_master()
        self.settle_down(0, 0)
        return True

    def fail(self, index: int, _: int) -> bool:
        names = self._running()
        if not names:
            return False
        agent = self.model.agents[names[index % len(names)]]
        if agent.connected:
            self.model.fail(agent)
        else:
            agent.state = LocalState.FAILED
            agent.go_on()
        return True

    def reach(self, _: int, __: int) -> bool:
        for name in self._running():
            if self.model.agents[name].connected:
                self.model.reach(self.model.agents[name])
        return bool(self._running())

    def report(self, index: int, step: int) -> bool:
        agent = self._pick_connected(index)
        if agent is None or agent.name not in self._running():
            return False
        self.model.report(agent, step)
        self.model.settle()
        return True

    def slowness(self, index: int, _: int) -> bool:
        self.model.answering = bool(index % 4)
        if self.model.answering:
            self.answer_all()
        return True

    def answer_all(self) -> None:
        for agent in self.model.agents.values():
            if agent.connected and agent.round and agent.state is LocalState.IDLE:
                self.model.answer_prepare(agent)
        self.model.settle()

    def crash_master(self, _: int, __: int) -> bool:
        if self.model.kept:
            self.model.crash_master()
        return bool(self.model.kept)

    def crash_master_before_it_sends(self, index: int, _: int) -> bool:
        if not self._running():
            return False
        self.model.losing = True
        self.fail(index, 0)
        self.model.crash_master()
        return True

    def doom_master(self, messages: int, newcomers: int) -> bool:
        """The master dies some messages later, and newcomers perhaps with it."""
        if not self.model.kept:
            return False
        self.model.dies_in = messages % 12
        self.model.newcomers_die = bool(newcomers % 2)
        return True

    def settle_down(self, _: int, __: int) -> bool:
        """All agents are back, respond and train: the precondition of a planned change."""
        self.slowness(1, 0)
        self.model.reconnect_all()
        self.model.advance(6)
        return True

    def change_that_kills(self, messages: int, about: int) -> bool:
        """A node joins or is asked to leave, and the master dies some messages later."""
        if not self._running():
            return False
        self.doom_master(messages, about)
        if about & 2 and len(self.model.agents) < 8:
            self.join(48 | 192, 12 if about & 4 else 0)
            self.model.advance(0.2)
        else:
            self.ask_to_leave(about >> 3, 0)
        return True

    def lose_memory(self, told: int, seldom: int) -> bool:
        if seldom % 4:
            return False
        number = self.model.membership.round.number
        self.model.lose_memory(after_round=number if told % 2 else 0)
        return True

    def replace(self, index: int, about: int) -> bool:
        old = self._pick(index)
        if old is None or len(self.model.agents) >= 12:
            return False
        old.stubborn = bool(about & 1)
        generation = (old.generation or 0) + 1
        self.model.join(
            group=old.group,
            role=old.role,
            rank=old.rank or 0,
            generation=generation,
            saves=bool(about & 2),
        )
        return True


def _nodes(sizes: bytes) -> dict[str, object]:
    """Sizes of all nodes together, or, in every second job, of each role."""
    low, unit = 1 + sizes[0] % 3, 1 + sizes[2] % 2
    most = max(low + sizes[1] % 4, unit)
    if sizes[0] & 64:
        return {"min_nodes": low, "max_nodes": most, "node_unit": unit}
    chief, worker = ROLES
    roles = [
        {"name": chief, "min_nodes": 1, "max_nodes": 1 + sizes[2] // 2 % 2},
        {"name": worker, "min_nodes": low - 1, "max_nodes": most, "node_unit": unit},
    ]
    return {"min_nodes": low, "max_nodes": most + 2, "roles": roles}


def test_whatever_happens_the_job_recovers() -> None:
    for seed in range(HISTORIES):
        chance = random.Random(seed)
        sizes = chance.randbytes(3)
        steps = [tuple(chance.randbytes(3)) for _ in range(STEPS)]
        if failure_of(sizes, steps):
            pytest.fail(f"history {seed}:\n{failure_of(sizes, shrunk(sizes, steps))}")


def failure_of(sizes: bytes, steps: Sequence[Step]) -> str:
    """The failure of a history; empty if it passes."""
    history = History(sizes)
    try:
        for step in steps:
            history.step(*step)
        history.end()
    except Exception as error:
        return f"{error!r}\nafter\n  " + "\n  ".join(history.told)
    return ""


def shrunk(sizes: bytes, steps: list[Step]) -> list[Step]:
    """A history that fails as well, with as few steps as removing some allows."""
    length = len(steps) // 2
    while length:
        at = 0
        while at < len(steps):
            fewer = steps[:at] + steps[at + length :]
            if failure_of(sizes, fewer):
                steps = fewer
            else:
                at += length
        length //= 2
    return steps
