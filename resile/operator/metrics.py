"""The operator's Prometheus metrics.

Durations are observed as they happen; everything else is read from the running parts on each
scrape, so nothing has to be kept in sync. It uses a registry of its own: without the process'
defaults, and several operators fit into one process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from resile.kube.runtime.election import LeaderElection
from resile.kube.runtime.events import EventRecorder
from resile.kube.runtime.reflector import Reflector
from resile.kube.runtime.workqueue import WorkQueue

__all__ = ["OperatorMetrics", "QueueMetrics"]

SECONDS = (0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0)
"""From a reconcile with nothing to do, to one that waits for an API server that is unavailable."""


class QueueMetrics:
    """Implements :class:`resile.kube.runtime.workqueue.QueueObserver`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._waited = Histogram(
            "resile_operator_queue_wait_seconds",
            "Time that a job waited in the queue",
            registry=registry,
            buckets=SECONDS,
        )
        self._handled = Histogram(
            "resile_operator_reconcile_seconds",
            "Duration of a reconcile of a job",
            registry=registry,
            buckets=SECONDS,
        )
        self._failed = Counter(
            "resile_operator_reconcile_errors",
            "Reconciles that failed and are retried",
            registry=registry,
        )

    def waited(self, seconds: float) -> None:
        """Observe the time in the queue of a key that is about to be handled."""
        self._waited.observe(seconds)

    def handled(self, seconds: float) -> None:
        """Observe the duration of a handler."""
        self._handled.observe(seconds)

    def failed(self) -> None:
        """Count a handler that failed."""
        self._failed.inc()


class OperatorMetrics:
    """All metrics of one operator. Pass ``queue`` to its work queue, then ``follow`` its parts."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.queue = QueueMetrics(self.registry)

    def follow(
        self,
        *,
        queue: WorkQueue[tuple[str, str]],
        reflectors: Sequence[Reflector],
        recorder: EventRecorder,
        election: LeaderElection | None,
    ) -> None:
        """Expose the state of these parts, too. ``election``: None without leader election."""
        self.registry.register(_Parts(queue, reflectors, recorder, election))

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)


class _Parts:
    """Implements prometheus-client's Collector."""

    def __init__(
        self,
        queue: WorkQueue[tuple[str, str]],
        reflectors: Sequence[Reflector],
        recorder: EventRecorder,
        election: LeaderElection | None,
    ) -> None:
        self._queue = queue
        self._reflectors = reflectors
        self._recorder = recorder
        self._election = election

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        leading = float(self._election is None or self._election.leading)
        yield GaugeMetricFamily(
            "resile_operator_leading", "1 while it is the leader", value=leading
        )
        yield GaugeMetricFamily(
            "resile_operator_queue_depth",
            "Jobs that wait to be reconciled",
            value=self._queue.depth,
        )
        yield CounterMetricFamily(
            "resile_operator_events_dropped",
            "Kubernetes Events that were not written",
            value=self._recorder.dropped,
        )
        yield from self._watches()

    def _watches(self) -> Iterator[Metric]:
        objects = GaugeMetricFamily(
            "resile_operator_objects", "Objects in the cache, by kind", labels=["kind"]
        )
        lists = CounterMetricFamily(
            "resile_operator_lists",
            "Full lists: one at the start, and one after each broken watch",
            labels=["kind"],
        )
        for reflector in self._reflectors:
            objects.add_metric([reflector.kind.kind], len(reflector.store))
            lists.add_metric([reflector.kind.kind], reflector.lists)
        yield from (objects, lists)
