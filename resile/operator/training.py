"""What the master saw of the training, as part of a job's status. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from resile.job.spec import ElasticJob
from resile.job.status import JobStatus
from resile.platform.kubernetes.labels import role_selector
from resile.wire.views import JobPicture

__all__ = ["Pace", "with_pace", "with_training"]


@dataclass(frozen=True)
class Pace:
    """How far the training was at a moment of a clock that only goes forward."""

    step: int
    at: float

    def since(self, earlier: Pace | None) -> str:
        """The speed between two moments, in words; empty if there is none to tell."""
        if earlier is None or self.at <= earlier.at or self.step <= earlier.step:
            return ""
        return f"{(self.step - earlier.step) / (self.at - earlier.at):.3g} steps/s"


def with_training(
    status: JobStatus, job: ElasticJob, *, seen: JobPicture | None, generation: int | None
) -> JobStatus:
    """The status with what the controller cannot know, apart from how far the training is."""
    role = job.spec.scaled_role()
    training = None if seen is None else seen.training
    return replace(
        status,
        selector="" if role is None else role_selector(job.metadata.name, role),
        observed_generation=generation,
        round=status.round if training is None else training.round or None,
        world_size=status.world_size if training is None else training.world_size or None,
        throughput="" if status.finished or job.spec.suspend else status.throughput,
    )


def with_pace(status: JobStatus, pace: Pace, earlier: Pace | None) -> JobStatus:
    """The status with how far the training is, and how fast."""
    throughput = "" if status.finished else pace.since(earlier)
    return replace(status, step=pace.step, throughput=throughput)
