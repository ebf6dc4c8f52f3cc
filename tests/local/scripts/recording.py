"""Records of the tests' training scripts: a line a step, and the resulting model."""

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
    """Sleep for $PAUSE seconds, unless the test has created the file ``hurry``."""
    if not beside("hurry").exists():
        time.sleep(float(os.environ.get("PAUSE", usual)))


def beside(name: str) -> Path:
    """A file with which the test signals a running script."""
    return Path(os.environ["STEPS_FILE"]).with_name(name)


def digest(model: nn.Module) -> str:
    """A hash of the weights, exact to the bit. A collective operation if they are sharded."""
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
