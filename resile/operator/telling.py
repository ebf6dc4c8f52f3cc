"""Report what happens to jobs: as Kubernetes Events on jobs and pods, and in the log."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from resile.control.pods import one_line
from resile.job.events import EventKind, Severity, severity_of
from resile.job.status import DecisionNote
from resile.operator.recorder import EventRecorder
from resile.operator.world import Key, World
from resile.platform.kubernetes.kinds import KubeObject
from resile.wire.views import EventView

__all__ = ["Teller"]

log = logging.getLogger("resile.operator")


class Teller:
    """Emits the Events and log lines of all jobs."""

    def __init__(self, recorder: EventRecorder, world: World) -> None:
        self._recorder = recorder
        self._world = world

    def tell_job(self, job: KubeObject, kind: EventKind, text: str) -> None:
        """Report something about a job as a whole."""
        self._tell(job, kind.value, text)

    def tell_notes(self, job: KubeObject, notes: Iterable[DecisionNote]) -> None:
        """Report decisions, on the job and on the pod that each concerns."""
        namespace = job["metadata"]["namespace"]
        for note in notes:
            self._tell(job, note.reason, note.sentence)
            pod = self._world.pods.store.get((namespace, note.node)) if note.node else None
            if pod is not None:
                self._recorder.record(
                    pod, note.reason, note.sentence, warning=_is_warning(note.reason)
                )

    def tell_training(self, key: Key, events: Iterable[EventView]) -> None:
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
