"""Rank 0 ends early; the others still need the store of its node, and end when $FINISH exists."""

import os
import time
from pathlib import Path

import torch.distributed as dist

dist.init_process_group("gloo")
dist.barrier()
if dist.get_rank() == 0:
    print("rank 0 ends", flush=True)
    os._exit(0)
while not Path(os.environ["FINISH"]).exists():
    time.sleep(0.05)
store = dist.distributed_c10d._get_default_store()
store.set("late", "word")
assert store.get("late") == b"word"
os._exit(0)
