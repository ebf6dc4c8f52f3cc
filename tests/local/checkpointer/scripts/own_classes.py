"""A state of the script's own classes: an enum, dataclasses, named tuples. Classes of __main__.

The worker kills itself after the third step of the first round; in the end what the state holds is
written to $RESULT.
"""

import os
import signal
from dataclasses import dataclass, field
from enum import Enum, IntFlag
from pathlib import Path
from typing import Any, NamedTuple

import torch

from resile import Checkpointer

ROUND = int(os.environ["RESILE_ROUND"])


class Phase(Enum):
    """The phase of training."""

    WARMUP = "warmup"
    FULL = "full"


class Parts(IntFlag):
    """The parts of the model that are trained."""

    HEAD = 1
    BODY = 2


class Loss(NamedTuple):
    """The loss of one step."""

    step: int
    value: torch.Tensor


@dataclass(frozen=True)
class Best:
    """The best step so far."""

    step: int
    phase: Phase


@dataclass
class Progress:
    """The progress of the script."""

    phase: Phase = Phase.WARMUP
    parts: Parts = Parts.HEAD
    best: Best | None = None
    losses: list[Loss] = field(default_factory=list)
    by_phase: dict[Phase, int] = field(default_factory=dict)


progress = Progress()
state: dict[str, Any] = {"progress": progress, "weights": torch.zeros(2), "step": 0}
checkpointer = Checkpointer(os.environ["CHECKPOINTS"], every=1)
for step in range(checkpointer.restore(state), 5):
    if step == 2:
        progress.phase, progress.parts = Phase.FULL, Parts.HEAD | Parts.BODY
    progress.best = Best(step, progress.phase)
    progress.losses.append(Loss(step, torch.tensor([1.0 / (step + 1)])))
    progress.by_phase[progress.phase] = progress.by_phase.get(progress.phase, 0) + 1
    checkpointer.step(step, state)
    if ROUND == 1 and step == 2:
        os.kill(os.getpid(), signal.SIGKILL)
assert state["progress"] is progress
checkpointer.wait()
both = repr(Parts.HEAD | Parts.BODY)  # not the same in all versions of Python
Path(os.environ["RESULT"]).write_text(f"{ROUND} {progress}".replace(both, "both"))
