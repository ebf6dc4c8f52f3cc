"""Form a group by the init method given, add up ones, and fail the first attempt on request.

Prints the sum and the address that the launcher set.
"""

import os
import sys

import torch
import torch.distributed as dist

dist.init_process_group(
    "gloo",
    init_method=sys.argv[1],
    rank=int(os.environ["RANK"]),
    world_size=int(os.environ["WORLD_SIZE"]),
)
ones = torch.ones(1)
dist.all_reduce(ones)
where = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
print(f"sum {ones.item():g} at {where}", flush=True)
if "fail-once" in sys.argv and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    os._exit(3)
dist.destroy_process_group()
