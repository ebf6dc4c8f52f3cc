"""One worker that runs commands on its Checkpointer, line by line, and prints the results.

told.py CHECKPOINTS    with RESILE_GROUP, RESILE_ROUND, RESILE_RUN, TORCHELASTIC_RUN_ID set
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch

from resile import Checkpointer
from resile.checkpoint.errors import CheckpointError

state: dict[str, Any] = {"w": torch.zeros(4), "step": 0}
checkpointer = Checkpointer(sys.argv[1], keep=0)
for line in sys.stdin:
    what, *numbers = line.split()
    said: dict[str, Any] = {"error": ""}
    try:
        if what == "restore":
            said["step"] = checkpointer.restore(state)
            said["value"] = state["w"][0].item()
            said["problems"] = checkpointer.resumed.problems
        else:
            state["w"].fill_(float(numbers[1]))
            checkpointer.save(int(numbers[0]) - 1, state)
    except CheckpointError as error:
        said["error"] = f"{type(error).__name__}: {error}"
    print(json.dumps(said), flush=True)
