"""Report what happens to jobs: as Kubernetes Events on jobs and pods, and in the log."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from resile.control.pod_outcome import one_line
from resile.job.events import EventKind, Severity, severity_of
from resile.job.status import DecisionNote
from resile.kube.resources import KubeObject
from resile.kube.runtime.events import EventRecorder
from resile.operator.informers import Informers, Key
from resile.wire.views import EventView

__all__ = ["JobEventReporter"]

log = logging.getLogger("resile.operator")


class JobEventReporter:
    """Emits the Events and log lines of all jobs."""

    def __init__(self, recorder: EventRecorder, world: Informers) -> None:
        self._recorder = recorder
        self._world = world

    def report_job(self, job: KubeObject, kind: EventKind, text: str) -> None:
        """Report something about a job as a whole."""
        self._tell(job, kind.value, text)

    def report_decisions(self, job: KubeObject, notes: Iterable[DecisionNote]) -> None:
        """Report decisions, on the job and on the pod that each concerns."""
        namespace = job["metadata"]["namespace"]
        for note in notes:
            self._tell(job, note.reason, note.sentence)
            pod = self._world.pods.store.get((namespace, note.node)) if note.node else None
            if pod is not None:
                self._recorder.record(
                    pod, note.reason, note.sentence, warning=_is_warning(note.reason)
                )

    def report_training(self, key: Key, events: Iterable[EventView]) -> None:
        """Report a master's training events; one of another version may have other kinds."""
        job = self._world.jobs.store.get(key)
        if job is not None:
            for event in events:
                self._tell(job, one_line(event.kind), event.text, at=event.time)

    def _tell(self, job: KubeObject, kind: str, text: str, *, at: float | None = None) -> None:
        """``at``: when it happened, if not now."""
        if self._recorder.record(job, kind, text, warning=_is_warning(kind), at=at):
            name = f"{job['metadata']['namespace']}/{job['metadata']['name']}"
            log.info("%s: %s: %s", name, kind, one_line(text))


def _is_warning(kind: str) -> bool:
    return severity_of(kind) is Severity.WARNING
