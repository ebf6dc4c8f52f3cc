"""The life of a master process: take the store, listen, serve, and exit with the job.

The store is taken before the port, so that the second of two masters for one job learns the reason;
the port is bound before the master is announced.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import resource
import secrets
import signal
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from resile.job.elasticity import Elasticity
from resile.master.effects import Effects
from resile.master.groups import Groups, MasterInfo
from resile.master.http import add_routes
from resile.master.records import JOB_KEY, JobRecord, StoredState, decode_state
from resile.master.service import MasterService
from resile.master.shard_handler import ShardRequestHandler
from resile.master.store.base import Store, StoreOfOtherJob, StoreUnusable
from resile.shards.leases import LeaseManager
from resile.shards.protocol import SHARDS_PATH
from resile.shards.server import ShardEndpoint
from resile.wire.auth_middleware import AuthMiddleware
from resile.wire.client import AGENT_PATH
from resile.wire.endpoint import Endpoint
from resile.wire.server import AgentEndpoint
from resile.wire.tls_site import TlsSite

log = logging.getLogger("resile.master")

SHUTDOWN_GRACE = 3.0
"""Seconds that agents have to receive the end of the job before the master exits."""

ALL_LOST_TIMEOUT = 30.0
"""Seconds after which a master that exits with its job also exits when all nodes are lost."""

NO_AGENT_TIMEOUT = 30.0
"""The same when no node ever joined."""

LOST_CHECK_INTERVAL = 0.5
"""Seconds between two checks of these, at most."""

DRAIN_LISTEN = 2.0
"""Seconds for which a master that was asked to exit waits for nodes that are asked the same, as on
a drained machine: all members save before a node leaves, and the next master may be far away."""


class PortTaken(Exception):
    """Another program listens on the endpoint."""


class ListenError(Exception):
    """The endpoint is not an address of this machine, or invalid."""


@dataclass(frozen=True)
class MasterConfig:
    """Configuration of a master."""

    job: str | None
    """None: taken from the first agent, and the sizes from the main group's first agent."""

    endpoint: Endpoint
    token: str
    elasticity: Elasticity | None
    """Of the main group; None: taken from its first agent."""

    tls: ssl.SSLContext | None = None
    until_done: bool = False
    """Exit with the job, rather than stay to serve its status."""

    after_round: int = 0
    """The job is known to have reached this round: if the store is empty, its agents are asked what
    they hold before any round is formed."""


async def run_master(
    config: MasterConfig, store: Store, *, listening: Callable[[Endpoint], None]
) -> bool:
    """Serve one job; ``listening`` is called with the endpoint once agents can connect.

    Returns whether the job is over, or never started: then nothing of it need be kept.
    """
    _allow_many_connections()
    try:
        service = await _service(config, store)
        runner, sweeper = await _listen(config, service, listening)
    except BaseException:
        await store.close()
        raise
    deciding = asyncio.create_task(service.run())
    stopping = asyncio.create_task(_ended(config, service))
    leaving = asyncio.create_task(_asked_to_exit(service))
    try:
        await asyncio.wait([deciding, stopping, leaving], return_when=asyncio.FIRST_COMPLETED)
        if deciding.done():
            deciding.result()
        if stopping.done():
            await store.erase()
        return stopping.done() or _is_past(service)
    finally:
        service.leave()
        for task in (deciding, stopping, leaving, sweeper):
            task.cancel()
        await asyncio.gather(deciding, stopping, leaving, sweeper, return_exceptions=True)
        await runner.cleanup()
        await store.close()


async def _load_state(store: Store) -> StoredState | None:
    """Load the records of a store; raises StoreUnusable for invalid ones."""
    try:
        return decode_state(await store.load())
    except (ValueError, KeyError, TypeError) as error:
        raise StoreUnusable(
            f"the records in the store are damaged ({error}); to start without them, "
            f"{store.how_to_discard}"
        ) from None


async def _service(config: MasterConfig, store: Store) -> MasterService:
    """Create a service that continues from the store, or starts a new job."""
    wall_offset = time.time() - time.monotonic()
    memory = await _load_state(store)
    if memory is not None and config.job not in (None, memory.job.job):
        if not _ended_in(memory):
            raise StoreOfOtherJob(_other_job(memory, config, store))
        log.info("the store holds another job, '%s', which is over: discarding it", memory.job.job)
        await store.erase()
        memory = None
    pid = os.getpid()
    if memory is not None:
        log.info("found the job in the store: continuing at round %d", memory.round.number)
        now = time.monotonic()
        effects = Effects(memory.events, wall_offset=wall_offset)
        # Otherwise a controller manages the job, and would not know what a person removed.
        how_to_discard = store.how_to_discard if config.until_done else ""
        about = MasterInfo(pid, ends_with_job=config.until_done, how_to_discard=how_to_discard)
        groups = Groups.restore(memory, effects=effects, about=about, now=now)
        shards = LeaseManager(effects, memory.shards, now=now)
        shards.expect_reconnects(proof_at=now + groups.main.elasticity.lease)
        return MasterService(groups, store, shards=shards)
    job = JobRecord(
        job=config.job or "",
        run=secrets.token_hex(8),
        elasticity=config.elasticity or Elasticity(),
        agreed=config.job is not None and config.elasticity is not None,
        floor=config.after_round,
    )
    effects = Effects(wall_offset=wall_offset)
    if job.job:
        effects.put(JOB_KEY, job)  # the other records are found only beside this one
    about = MasterInfo(pid, ends_with_job=config.until_done)
    groups = Groups.begin(job, effects=effects, about=about, forgotten=config.after_round > 0)
    return MasterService(groups, store)


def _ended_in(memory: StoredState) -> bool:
    """Whether all groups of a stored job that ever had a node are over."""
    begun = [one.job for one in memory.groups]
    if memory.job.next_node or memory.job.outcome or not begun:
        begun.append(memory.job)
    return all(job.outcome for job in begun)


def _other_job(memory: StoredState, config: MasterConfig, store: Store) -> str:
    name = memory.job.job
    return (
        f"{config.endpoint} belongs to the job '{name}', which is not over (round "
        f"{memory.round.number}): continue it with --rdzv-id {name}, use another endpoint for "
        f"'{config.job}', or to discard '{name}', {store.how_to_discard}"
    )


async def _listen(
    config: MasterConfig, service: MasterService, listening: Callable[[Endpoint], None]
) -> tuple[web.AppRunner, asyncio.Task[None]]:
    auth = AuthMiddleware(config.token)
    app = auth.application()
    app.router.add_get(AGENT_PATH, AgentEndpoint(service).serve)
    app.router.add_get(SHARDS_PATH, ShardEndpoint(ShardRequestHandler(service)).serve)
    add_routes(app, service)
    runner = auth.runner(app)
    await runner.setup()
    host, port = config.endpoint.listening_host, config.endpoint.port
    if config.tls is None:
        site = web.TCPSite(runner, host, port, backlog=4096)
    else:
        site = TlsSite(runner, host, port, tls=config.tls, backlog=4096)
    try:
        await site.start()
    except (OSError, UnicodeError) as error:
        await runner.cleanup()
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            raise PortTaken(f"{config.endpoint} is in use by another program") from None
        why = getattr(error, "strerror", "") or "not a valid host name"
        raise ListenError(f"cannot listen on {config.endpoint}: {why}") from None
    sweeper = asyncio.create_task(auth.sweep(runner))
    bound = Endpoint(config.endpoint.host, runner.addresses[0][1])
    log.info("master of %s listening on %s", config.job or "the first job that connects", bound)
    listening(bound)
    return runner, sweeper


async def _ended(config: MasterConfig, service: MasterService) -> None:
    """Return when the job is over and agents know; never, unless the master exits with the job."""
    while not (config.until_done and _is_over(service)):
        # The end of a job is an event, the end of a timeout is not.
        await service.next_event(timeout=LOST_CHECK_INTERVAL)
        if service.leaving:  # before Python 3.12 wait_for may swallow a cancellation
            return
    deadline = time.monotonic() + SHUTDOWN_GRACE
    # A master that found the job over in its store has sent that to no agent yet.
    while (service.peers or service.found_over) and time.monotonic() < deadline:
        await asyncio.sleep(0.02)


async def _asked_to_exit(service: MasterService) -> None:
    """Return when a signal asked this master to exit, and it may: after SIGTERM it waits for nodes
    that leave as well and save first; after SIGINT or a second signal it does not."""
    asked: asyncio.Queue[signal.Signals] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, asked.put_nowait, name)
    if await asked.get() is signal.SIGINT:
        return
    quiet_until = time.monotonic() + DRAIN_LISTEN
    groups = service.groups
    give_up_at = quiet_until + max(group.elasticity.leave_timeout for group in groups)
    while asked.empty() and service.peers and any(group.training for group in groups):
        now = time.monotonic()
        saving = any(group.handing_over for group in groups)
        if now >= (give_up_at if saving else quiet_until):
            return
        await asyncio.sleep(0.05)


def _is_past(service: MasterService) -> bool:
    return service.groups.over or not service.ever_joined


def _is_over(service: MasterService) -> bool:
    """Whether this master is no longer needed. Other groups may outlive the main one."""
    if service.groups.over:
        return True
    if service.emptied_at is None:
        return False
    empty_for = time.monotonic() - service.emptied_at
    if not service.ever_joined:
        return empty_for > NO_AGENT_TIMEOUT
    return service.groups.deserted or empty_for > ALL_LOST_TIMEOUT


def _allow_many_connections() -> None:
    """Raise the limit of descriptors: the usual 1,024 would do for 1,000 nodes only."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
