"""Processes for tests that start with torch already imported, forked from a server that has it.

A cold start costs seconds of imports for each rank; most tests are not about that.
"""

from __future__ import annotations

import multiprocessing

__all__ = ["warm"]

warm = multiprocessing.get_context("forkserver")
warm.set_forkserver_preload(
    [
        "torch._dynamo",
        "torch.distributed.checkpoint",
        "torch.distributed.fsdp",
        "torch.distributed.tensor.parallel",
        "resile.train.batch",
        "resile.train.checkpoint.restore.apply_state",
    ]
)
