"""What the tests' training scripts write down: a line a step, and what the model came to."""

import hashlib
import json
import os
import time
from pathlib import Path

import torch.distributed as dist
from torch import nn


def note(what: str, step: int) -> None:
    """Append a line to $STEPS_FILE."""
    rank, world = place()
    line = {
        "what": what,
        "time": time.monotonic(),
        "round": int(os.environ.get("RESILE_ROUND", "0")),
        "rank": rank,
        "world": world,
        "pid": os.getpid(),
        "step": step,
        "restarts": int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")),
    }
    with open(os.environ["STEPS_FILE"], "a") as file:
        file.write(json.dumps(line) + "\n")


def place() -> tuple[int, int]:
    """Rank and world size; a script without a launcher has them from its process group alone."""
    if dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def pause(usual: str = "0") -> None:
    """As long as $PAUSE, unless the test is in a hurry."""
    if not beside("hurry").exists():
        time.sleep(float(os.environ.get("PAUSE", usual)))


def beside(name: str) -> Path:
    """A file by which the test tells a running script something."""
    return Path(os.environ["STEPS_FILE"]).with_name(name)


def digest(model: nn.Module) -> str:
    """The same for the same weights, to the bit. A collective where they are sharded."""
    found = hashlib.sha256()
    for value in model.state_dict().values():
        whole = value.full_tensor() if hasattr(value, "full_tensor") else value
        found.update(whole.detach().cpu().numpy().tobytes())
    return found.hexdigest()


def write_result(model: nn.Module, **more: object) -> None:
    """Rank 0 writes a digest of the weights, and ``more``, to $RESULT."""
    result = {"weights": digest(model), **more}
    if place()[0] == 0:
        Path(os.environ["RESULT"]).write_text(json.dumps(result))
