"""What happened to a job, as Kubernetes Events on it and on its pods, and as lines of the log."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from resile.control.pods import one_line
from resile.job.status import DecisionNote
from resile.operator.recorder import EventRecorder
from resile.operator.world import Key, World
from resile.platform.kubernetes.kinds import KubeObject
from resile.wire.views import EventView

__all__ = ["Teller"]

log = logging.getLogger("resile.operator")

TROUBLE = frozenset(
    {"NodeGivenUp", "JobFailed", "InvalidSpec", "NodeRelaunched", "NodeLost", "NowhereToGo"}
)
"""What `kubectl describe` should show as a warning."""


class Teller:
    """Tells people."""

    def __init__(self, recorder: EventRecorder, world: World) -> None:
        self._recorder = recorder
        self._world = world

    def tell_job(
        self,
        job: KubeObject,
        reason: str,
        text: str,
        *,
        warning: bool = False,
        at: float | None = None,
    ) -> None:
        """Something about a job as a whole; ``at``: when it happened, if not now."""
        metadata = job["metadata"]
        if self._recorder.record(job, reason, text, warning=warning or reason in TROUBLE, at=at):
            name = f"{metadata['namespace']}/{metadata['name']}"
            log.info("%s: %s: %s", name, reason, one_line(text))

    def tell_notes(self, job: KubeObject, notes: Iterable[DecisionNote]) -> None:
        """What was decided; also on the pod that it concerns."""
        namespace = job["metadata"]["namespace"]
        for note in notes:
            self.tell_job(job, note.reason, note.sentence)
            pod = self._world.pods.store.get((namespace, note.node)) if note.node else None
            if pod is not None:
                self._recorder.record(
                    pod, note.reason, note.sentence, warning=note.reason in TROUBLE
                )

    def tell_training(self, key: Key, events: Iterable[EventView]) -> None:
        """What the master tells of the training."""
        job = self._world.jobs.store.get(key)
        if job is not None:
            for event in events:
                self.tell_job(job, one_line(event.kind), event.text, at=event.time)
