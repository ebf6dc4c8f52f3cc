"""Two candidates for one Lease, each with a separate connection to a real API server."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import pytest_asyncio

from resile.kube.client import KubeClient
from resile.kube.resources import LEASES
from resile.kube.runtime.election import LeaderElection, LeaseTimes
from tests.kube.apiserver import ApiServer
from tests.kube.machinery.link import Link
from tests.waiting import eventually

pytestmark = pytest.mark.timeout(120)

TIMES = LeaseTimes(lease=4.0, renew_deadline=2.0, retry=0.1)


class Terms:
    """The terms of each leader. No term may begin before the previous one ended."""

    def __init__(self) -> None:
        self.leading: set[str] = set()
        self.began: dict[str, float] = {}
        self.ended: dict[str, float] = {}

    async def lead(self, name: str) -> None:
        assert not self.leading, f"{name} leads beside {self.leading}"
        self.leading.add(name)
        self.began[name] = time.monotonic()
        try:
            await asyncio.Event().wait()
        finally:
            self.leading.discard(name)
            self.ended[name] = time.monotonic()


class Candidate:
    """One operator's candidacy in the election."""

    def __init__(self, client: KubeClient, name: str, *, terms: Terms, namespace: str) -> None:
        self.election = LeaderElection(
            client, "lead", namespace=namespace, identity=name, times=TIMES
        )
        self._name = name
        self._terms = terms
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.ensure_future(self.election.run(lambda: self._terms.lead(self._name)))

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
            assert task.cancelled(), task.exception()


class Contest:
    """Two candidates; the first one's connection can be cut."""

    def __init__(self, link: Link, candidates: tuple[Candidate, Candidate], terms: Terms) -> None:
        self.link = link
        self.first, self.second = candidates
        self.terms = terms

    async def led_by(self, name: str) -> None:
        await eventually(lambda: self.terms.leading == {name}, f"{name} to lead")


@pytest_asyncio.fixture
async def contest(client: KubeClient, server: ApiServer) -> AsyncIterator[Contest]:
    async with AsyncExitStack() as stack:
        link = await stack.enter_async_context(Link(server).open())
        through = await stack.enter_async_context(_client(link, client.namespace))
        terms = Terms()
        first = Candidate(through, "first", terms=terms, namespace=client.namespace)
        second = Candidate(client, "second", terms=terms, namespace=client.namespace)
        for candidate in (first, second):
            stack.push_async_callback(candidate.stop)
        yield Contest(link, (first, second), terms)


@asynccontextmanager
async def _client(link: Link, namespace: str) -> AsyncIterator[KubeClient]:
    async with KubeClient.connect(kubeconfig=link.kubeconfig(namespace=namespace)) as client:
        yield client


async def test_the_first_leads_and_the_lease_says_so(contest: Contest, client: KubeClient) -> None:
    contest.first.start()
    await contest.led_by("first")
    contest.second.start()
    await eventually(lambda: contest.second.election.leader == "first", "the second to see it")
    assert contest.first.election.leading
    assert not contest.second.election.leading
    spec = (await client.get(LEASES, "lead"))["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("first", 0)
    assert spec["leaseDurationSeconds"] == 4
    for moment in (spec["acquireTime"], spec["renewTime"]):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", moment)


async def test_a_leader_renews_and_stays(contest: Contest, client: KubeClient) -> None:
    contest.first.start()
    contest.second.start()
    await eventually(lambda: contest.terms.leading, "somebody to lead")
    before = (await client.get(LEASES, "lead"))["spec"]
    began = time.monotonic()
    await eventually(lambda: time.monotonic() - began > TIMES.lease * 1.5, "the time to pass")
    after = (await client.get(LEASES, "lead"))["spec"]
    assert after["renewTime"] > before["renewTime"]
    assert after["acquireTime"] == before["acquireTime"]
    assert after["leaseTransitions"] == 0
    assert not contest.terms.ended


async def test_a_leader_that_stops_hands_over_at_once(contest: Contest, client: KubeClient) -> None:
    contest.first.start()
    await contest.led_by("first")
    contest.second.start()
    await eventually(lambda: contest.second.election.leader == "first", "the second to see it")
    await contest.first.stop()
    assert not contest.first.election.leading
    await contest.led_by("second")
    assert contest.terms.began["second"] - contest.terms.ended["first"] < TIMES.renew_deadline
    assert (await client.get(LEASES, "lead"))["spec"]["leaseTransitions"] == 1


async def test_a_leader_that_is_cut_off_stops_before_another_begins(contest: Contest) -> None:
    contest.first.start()
    await contest.led_by("first")
    contest.second.start()
    await eventually(lambda: contest.second.election.leader == "first", "the second to see it")
    cut = time.monotonic()
    contest.link.cut()
    await contest.led_by("second")
    terms = contest.terms
    assert terms.ended["first"] - cut <= TIMES.renew_deadline + 0.5
    # The last renewal may have been a retry before the cut; from then on the whole lease counts.
    assert terms.began["second"] - cut >= TIMES.lease - TIMES.retry - 0.5
    assert terms.began["second"] > terms.ended["first"]


async def test_who_was_cut_off_stands_by_when_the_line_is_back(contest: Contest) -> None:
    contest.first.start()
    await contest.led_by("first")
    contest.second.start()
    contest.link.cut()
    await contest.led_by("second")
    contest.link.mend()
    await eventually(lambda: contest.first.election.leader == "second", "the first to see it")
    assert not contest.first.election.leading
    await contest.second.stop()
    await contest.led_by("first")


async def test_a_server_that_is_away_for_long_ends_the_lead_and_its_return_begins_one(
    contest: Contest, server: ApiServer
) -> None:
    contest.first.start()
    await contest.led_by("first")
    server.stop()
    try:
        await eventually(lambda: not contest.terms.leading, "the lead to end")
    finally:
        await asyncio.to_thread(server.start)
    await contest.led_by("first")


async def test_what_the_leader_does_may_end_or_fail(client: KubeClient) -> None:
    election = LeaderElection(client, "lead", namespace=client.namespace, times=TIMES)

    async def done() -> None:
        assert election.leading

    async def broken() -> None:
        raise ValueError("broken")

    await election.run(done)
    with pytest.raises(ValueError, match="broken"):
        await election.run(broken)
    assert "holderIdentity" not in (await client.get(LEASES, "lead"))["spec"]
