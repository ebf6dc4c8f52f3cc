"""The training script every launcher runs: a small DDP job on gloo that records its steps.

Each rank appends one JSON line per step to the file named by BENCH_EVENTS, in a single O_APPEND
write, so that lines of several ranks never mix. Times are CLOCK_MONOTONIC, which all processes of
one machine share, so the bench can subtract a fault's time from a step's.

The script imports torch and the standard library only: it also runs in environments where neither
Resile nor the bench is installed. A step is a sleep that simulates computation
(BENCH_STEP_SECONDS) and then a real forward, backward with all-reduce, and optimizer step; it is
recorded when it is complete. Libraries named by BENCH_IMPORTS are imported before the first step.
"""

import importlib
import json
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FEATURES = 32
BATCH = 16
DEFAULT_STEP_SECONDS = "0.02"


def main() -> None:
    for library in os.environ.get("BENCH_IMPORTS", "").split():
        importlib.import_module(library)
    events = os.open(os.environ["BENCH_EVENTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    pause = float(os.environ.get("BENCH_STEP_SECONDS", DEFAULT_STEP_SECONDS))
    dist.init_process_group("gloo")
    identity = {
        "node": int(os.environ["BENCH_NODE"]),
        "rank": dist.get_rank(),
        "world": dist.get_world_size(),
        "pid": os.getpid(),
        "restart": int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")),
    }
    torch.manual_seed(dist.get_rank())
    model = DistributedDataParallel(nn.Linear(FEATURES, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    step = 0
    while True:
        time.sleep(pause)
        loss = model(torch.randn(BATCH, FEATURES)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        record = {"time": time.monotonic(), "step": step, **identity}
        os.write(events, json.dumps(record).encode() + b"\n")
        step += 1


if __name__ == "__main__":
    main()
