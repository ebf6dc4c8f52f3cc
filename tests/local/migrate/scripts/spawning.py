"""The trainer in this folder in two processes that this one starts, without a launcher.

Only the process group knows their ranks: they are not in the environment.
"""

import os
import runpy
import socket
from pathlib import Path

import torch.distributed as dist
import torch.multiprocessing as mp

WORLD = 2


def work(rank: int, port: int) -> None:
    start = dist.init_process_group

    def init(backend: str) -> None:
        start(backend, init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=WORLD)

    dist.init_process_group = init
    runpy.run_path(str(Path(__file__).with_name("trainer.py")), run_name="__main__")


if __name__ == "__main__":
    assert "RANK" not in os.environ
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    mp.spawn(work, args=(port,), nprocs=WORLD)
