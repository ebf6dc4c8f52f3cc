"""Prometheus metrics of a master: the training, and the data that it leases.

Everything is read from the current state on each scrape; the counters of leased data start at zero
with every master process, as Prometheus expects.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from resile.job.training import TrainingView
from resile.master.records import RoundPhase
from resile.master.service import MasterService
from resile.master.training_view import trainings
from resile.shards.dataset import statistics_of

__all__ = ["metrics_text"]

FIGURES: tuple[tuple[str, str, Callable[[TrainingView], float]], ...] = (
    ("round", "Number of the latest round", lambda seen: seen.round),
    ("world_size", "Workers in the latest round", lambda seen: seen.world_size),
    ("nodes", "Nodes in the group", lambda seen: len(seen.nodes)),
    ("restarts", "Rounds broken by a worker's own failure", lambda seen: seen.restarts),
    ("running", "1 while a round runs", lambda seen: seen.phase == RoundPhase.RUNNING.value),
    ("step", "Highest step reported", lambda seen: -1 if seen.step is None else seen.step),
)
"""Gauges by group. The main group's label is empty: no label, for Prometheus."""


def metrics_text(service: MasterService) -> bytes:
    """Return all metrics in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(_Metrics(service))
    return generate_latest(registry)


class _Metrics:
    """Implements prometheus-client's Collector."""

    def __init__(self, service: MasterService) -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        yield from self._training()
        yield from self._datasets()

    def _training(self) -> Iterator[Metric]:
        shown = trainings(self._service)
        for name, text, figure in FIGURES:
            family = GaugeMetricFamily(f"resile_{name}", text, labels=["group"])
            for group, seen in shown.items():
                family.add_metric([group], figure(seen))
            yield family
        yield GaugeMetricFamily("resile_time_seconds", "The master's clock", value=time.time())

    def _datasets(self) -> Iterator[Metric]:
        of = ["dataset", "group"]
        epoch = GaugeMetricFamily("resile_dataset_epoch", "Epoch that is leased", labels=of)
        records = GaugeMetricFamily(
            "resile_dataset_records",
            "Records of this epoch by state",
            labels=[*of, "state"],
        )
        leased = CounterMetricFamily(
            "resile_dataset_records_leased", "Records handed out by this master", labels=of
        )
        returned = CounterMetricFamily(
            "resile_dataset_records_returned",
            "Records handed out and returned untrained",
            labels=of,
        )
        for statistics in map(statistics_of, self._service.shards.datasets.values()):
            whose = [statistics.dataset, statistics.group]
            epoch.add_metric(whose, statistics.epoch)
            for state, count in statistics.records.items():
                records.add_metric([*whose, state.value], count)
            leased.add_metric(whose, statistics.traffic.leased)
            returned.add_metric(whose, statistics.traffic.returned)
        yield from (epoch, records, leased, returned)
