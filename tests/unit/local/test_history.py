"""A job's history: ordered, written to disk before it is shown, and waited for."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from resile.local.history import JobHistory, MasterEvents
from resile.local.jobdir import JobDir
from resile.wire.errors import Unreachable
from resile.wire.views import EventView


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JobDir:
    monkeypatch.setenv("RESILE_HOME", str(tmp_path / "home"))
    made = JobDir("train")
    made.path.mkdir(parents=True)
    return made


def event(text: str, seq: int = 0) -> EventView:
    return EventView(seq=seq, time=1.0, kind="K", text=text)


class Master:
    """A master whose events the test sets."""

    def __init__(self) -> None:
        self.told: list[EventView] = []
        self.away = False

    async def events(self, *, since: int = 0, wait: float = 0.0) -> list[EventView]:
        if self.away:
            raise Unreachable("away")
        if wait:
            await asyncio.sleep(0.01)
        return [one for one in self.told if one.seq > since]


async def test_decisions_and_the_masters_events_are_numbered_in_one_order(
    folder: JobDir,
) -> None:
    shown: list[EventView] = []
    history, master, changes = JobHistory(folder, shown.extend), Master(), []
    events = MasterEvents(master, history, changed=lambda: changes.append(1))  # type: ignore[arg-type]
    history.append([event("decided")])
    master.told = [event("joined", 1), event("round", 2)]
    await events.catch_up()
    await events.catch_up()
    history.append([event("decided again")])
    master.told.append(event("left", 3))
    await events.catch_up()
    found = await history.after(0, wait=0)
    assert [(one.seq, one.text) for one in found] == [
        (1, "decided"),
        (2, "joined"),
        (3, "round"),
        (4, "decided again"),
        (5, "left"),
    ]
    assert folder.events() == found == shown
    assert len(changes) == 2, "only what is new is news"


async def test_a_master_that_is_away_is_asked_again(folder: JobDir) -> None:
    history, master = JobHistory(folder, lambda _events: None), Master()
    events = MasterEvents(master, history, changed=lambda: None)  # type: ignore[arg-type]
    master.away = True
    following = asyncio.create_task(events.follow())
    waiting = asyncio.create_task(history.after(0, wait=30))
    await asyncio.sleep(0.02)
    master.away, master.told = False, [event("back", 7)]
    assert [one.text for one in await asyncio.wait_for(waiting, 10)] == ["back"]
    following.cancel()


async def test_a_wait_ends_in_time(folder: JobDir) -> None:
    history = JobHistory(folder, lambda _events: None)
    history.append([event("one")])
    assert await history.after(1, wait=0.05) == []
    history.append([])
    assert folder.events(since=1) == []
