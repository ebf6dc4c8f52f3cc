"""A training loop reduced to what the tests need: steps that all ranks take together.

Each step is one all-reduce; every rank then appends one line to $STEPS_FILE. The environment
requests faults: see the names below. They happen only in round 1 unless $TROUBLE_ROUNDS is set.
"""

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from recording import note

RANK, ROUND = int(os.environ["RANK"]), int(os.environ["RESILE_ROUND"])
STEPS = int(os.environ.get("STEPS", "1000000"))
PAUSE = float(os.environ.get("PAUSE", "0.02"))
FINISH = os.environ.get("FINISH", "")
TROUBLE = os.environ.get("TROUBLE", "")
TROUBLED = int(os.environ.get("TROUBLE_ROUNDS", "1")) >= ROUND
TROUBLED_RANK = int(os.environ.get("TROUBLE_RANK", "1"))


def trouble(kind: str) -> bool:
    return kind == TROUBLE and TROUBLED and RANK == TROUBLED_RANK


note("started", -1)
if trouble("never-joins"):
    time.sleep(3600)
if trouble("exits-before-joining"):
    sys.exit(3)
dist.init_process_group("gloo")
note("joined", -1)
for step in range(STEPS):
    if trouble("raises") and step == 3:
        raise RuntimeError(f"trouble on rank {RANK}")
    if trouble("exits-0-early") and step == 3:
        os._exit(0)
    if trouble("sleeps-in-collective") and step == 3:
        note("asleep", step)
        time.sleep(3600)
    total = torch.ones(1)
    dist.all_reduce(total)
    assert int(total.item()) == dist.get_world_size(), total
    note("step", step)
    if FINISH and Path(FINISH).exists():
        break  # for jobs of one worker: several might see it at different steps
    time.sleep(PAUSE)
dist.destroy_process_group()
