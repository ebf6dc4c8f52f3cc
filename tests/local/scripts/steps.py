"""A training loop reduced to what the tests look at: steps that all ranks take together.

Each step is one all-reduce; every rank then appends one line to $STEPS_FILE. The environment asks
for trouble: see the names below. Trouble happens only in round 1 unless $TROUBLE_ROUNDS says more.
"""

import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

RANK, ROUND = int(os.environ["RANK"]), int(os.environ["RESILE_ROUND"])
STEPS = int(os.environ.get("STEPS", "1000000"))
PAUSE = float(os.environ.get("PAUSE", "0.02"))
FINISH = os.environ.get("FINISH", "")
TROUBLE = os.environ.get("TROUBLE", "")
TROUBLED = int(os.environ.get("TROUBLE_ROUNDS", "1")) >= ROUND
TROUBLED_RANK = int(os.environ.get("TROUBLE_RANK", "1"))


def record(step: int, what: str = "step") -> None:
    line = {
        "what": what,
        "time": time.monotonic(),
        "round": ROUND,
        "rank": RANK,
        "world": int(os.environ["WORLD_SIZE"]),
        "pid": os.getpid(),
        "agent": int(os.environ["AGENT_PID"]) if "AGENT_PID" in os.environ else 0,
        "step": step,
        "restarts": int(os.environ["TORCHELASTIC_RESTART_COUNT"]),
    }
    with open(os.environ["STEPS_FILE"], "a") as file:
        file.write(json.dumps(line) + "\n")


def trouble(kind: str) -> bool:
    return kind == TROUBLE and TROUBLED and RANK == TROUBLED_RANK


record(-1, "started")
if trouble("never-joins"):
    time.sleep(3600)
if trouble("exits-before-joining"):
    sys.exit(3)
dist.init_process_group("gloo")
record(-1, "joined")
for step in range(STEPS):
    if trouble("raises") and step == 3:
        raise RuntimeError(f"trouble on rank {RANK}")
    if trouble("exits-0-early") and step == 3:
        os._exit(0)
    if trouble("sleeps-in-collective") and step == 3:
        record(step, "asleep")
        time.sleep(3600)
    total = torch.ones(1)
    dist.all_reduce(total)
    assert int(total.item()) == dist.get_world_size(), total
    record(step)
    if FINISH and Path(FINISH).exists():
        break  # for jobs of one worker: several might see it at different steps
    time.sleep(PAUSE)
dist.destroy_process_group()
