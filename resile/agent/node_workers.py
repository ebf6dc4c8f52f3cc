"""The workers of this node across all rounds: one group at a time, and the sockets they report to.

Progress, output folders and the environment outlive a round; a :class:`WorkerGroup` does not.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Mapping

from resile.agent.config import AgentConfig
from resile.agent.logs import log_root
from resile.agent.nursery import Nursery
from resile.agent.progress import ProgressSocket
from resile.agent.snapshot_service import SnapshotService
from resile.agent.workers import WorkerGroup
from resile.wire.messages import Progress, RankProgress, Start

__all__ = ["NodeWorkers"]

log = logging.getLogger("resile.agent")


class NodeWorkers:
    """Starts and stops groups of workers. ``on_exit`` is called when a worker exits."""

    def __init__(
        self,
        config: AgentConfig,
        nursery: Nursery,
        *,
        environment: Mapping[str, str],
        snapshots: SnapshotService,
        on_exit: Callable[[WorkerGroup], None],
    ) -> None:
        self._config = config
        self._nursery = nursery
        self._environment = environment
        self._snapshots = snapshots
        self._on_exit = on_exit
        self._log_root = log_root(config.logs, config.run_id)
        self._progress = ProgressSocket()
        self.group: WorkerGroup | None = None
        """The workers of the latest round, until they are stopped."""

    async def start(self, start: Start) -> WorkerGroup:
        """Start a round's workers, after those of the last one were stopped. Raises SpawnFailed."""
        log.info(
            "round %d runs: group rank %d of %d, %s of %d, store %s:%d",
            start.round,
            start.group_rank,
            start.group_world_size,
            _ranks(start.first_rank, self._config.nproc),
            start.world_size,
            start.store.host,
            start.store.port,
        )
        self._progress.new_round(start.round)
        self._snapshots.new_round(start.round)
        self.group = WorkerGroup(
            self._config,
            self._nursery,
            environment=self._environment,
            log_root=self._log_root.path,
            progress_socket=self._progress.name,
            snapshots_socket=self._snapshots.name,
            on_exit=self._on_exit,
        )
        await self.group.start(start)
        return self.group

    async def stop(self, *, grace: float | None, number: signal.Signals = signal.SIGTERM) -> None:
        """Stop the workers, if there are any; see :meth:`WorkerGroup.begin_stop`."""
        group, self.group = self.group, None
        if group is not None:
            await group.stop(grace=grace, number=number)

    def kill(self) -> None:
        """Kill all workers at once."""
        if self.group is not None:
            self.group.kill()

    @property
    def alive(self) -> bool:
        """Whether any worker is running."""
        return self.group is not None and bool(self.group.alive)

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids in the order of local ranks."""
        group = self.group
        return tuple(group.pids) if group else ()

    @property
    def progress(self) -> Progress | None:
        """The latest progress that the workers reported."""
        return self._progress.latest(self.pids)

    @property
    def rank_progress(self) -> tuple[RankProgress, ...]:
        """The progress of each worker."""
        group = self.group
        return self._progress.ranks(group.pids if group else {})

    def close(self) -> None:
        """Remove the progress socket and the log folder, once all workers have exited."""
        self._progress.close()
        self._log_root.remove()


def _ranks(first: int, count: int) -> str:
    return f"rank {first}" if count == 1 else f"ranks {first}-{first + count - 1}"
