"""What the scripts beside this file write down: a line a step, and what the model came to."""

import hashlib
import json
import os
import time
from pathlib import Path

import torch.distributed as dist
from torch import nn


def note(what: str, step: int) -> None:
    """Append a line to $STEPS_FILE."""
    line = {
        "what": what,
        "time": time.monotonic(),
        "round": int(os.environ.get("RESILE_ROUND", "0")),
        "rank": int(os.environ["RANK"]),
        "world": int(os.environ["WORLD_SIZE"]),
        "pid": os.getpid(),
        "agent": 0,
        "step": step,
        "restarts": int(os.environ["TORCHELASTIC_RESTART_COUNT"]),
    }
    with open(os.environ["STEPS_FILE"], "a") as file:
        file.write(json.dumps(line) + "\n")


def pause() -> None:
    """As long as $PAUSE, unless the test is in a hurry."""
    if not Path(os.environ["STEPS_FILE"]).with_name("hurry").exists():
        time.sleep(float(os.environ.get("PAUSE", "0")))


def write_result(model: nn.Module, **more: object) -> None:
    """Rank 0 writes a digest of the weights, and ``more``, to $RESULT."""
    digest = hashlib.sha256()
    for value in model.state_dict().values():
        digest.update(value.detach().cpu().numpy().tobytes())
    if dist.get_rank() == 0:
        result = {"weights": digest.hexdigest(), **more}
        Path(os.environ["RESULT"]).write_text(json.dumps(result))
