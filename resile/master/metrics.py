"""What a master tells Prometheus: the training, and the data that it leases.

Everything is read off the living state when it is asked for; the counters of leased data begin
anew with every master, as Prometheus expects of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from resile.master.records import RoundPhase
from resile.master.service import MasterService
from resile.master.shards_figures import figures_of
from resile.master.view import view

__all__ = ["metrics_text"]


def metrics_text(service: MasterService) -> bytes:
    """All there is now, in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(_Metrics(service))
    return generate_latest(registry)


class _Metrics:
    """Implements prometheus-client's Collector."""

    def __init__(self, service: MasterService) -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        """One metric after the other."""
        yield from self._training()
        yield from self._datasets()

    def _training(self) -> Iterator[Metric]:
        shown = view(self._service)
        running = float(shown.phase == RoundPhase.RUNNING.value)
        step = shown.step if shown.step is not None else -1
        for name, text, value in (
            ("round", "Number of the latest round", shown.round),
            ("world_size", "Workers in the latest round", shown.world_size),
            ("nodes", "Nodes in the job", len(shown.nodes)),
            ("restarts", "Rounds broken by a worker's own failure", shown.restarts),
            ("running", "1 while a round runs", running),
            ("step", "Highest step reported", step),
            ("time_seconds", "The master's clock", time.time()),
        ):
            yield GaugeMetricFamily(f"resile_{name}", text, value=value)

    def _datasets(self) -> Iterator[Metric]:
        of = ["dataset"]
        epoch = GaugeMetricFamily("resile_dataset_epoch", "Epoch that is leased", labels=of)
        records = GaugeMetricFamily(
            "resile_dataset_records",
            "Records of this epoch by what became of them",
            labels=["dataset", "state"],
        )
        leased = CounterMetricFamily(
            "resile_dataset_records_leased", "Records handed out by this master", labels=of
        )
        returned = CounterMetricFamily(
            "resile_dataset_records_returned",
            "Records handed out that came back untrained",
            labels=of,
        )
        for figures in map(figures_of, self._service.shards.datasets.values()):
            name = figures.dataset
            epoch.add_metric([name], figures.epoch)
            for state, count in figures.records.items():
                records.add_metric([name, state.value], count)
            leased.add_metric([name], figures.traffic.leased)
            returned.add_metric([name], figures.traffic.returned)
        yield from (epoch, records, leased, returned)
