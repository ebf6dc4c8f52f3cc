"""The training script all systems run: DDP on gloo, with a given amount of state to save.

Most of the state is ballast: parameters and momentum that belong to the model and its optimizer but
are not trained, and that DDP ignores. So a step costs the same at any size, and only the cost of
saving varies. Before a save the step number is written into each piece of ballast; after a restore
it is checked.

A step sleeps (BENCH_STEP_SECONDS) or, with BENCH_COMPUTE, keeps its core busy for about as long.
The ranks wait for each other, untimed, before each save, when the previous one is on storage, and
before a restore: the measured time includes neither the previous save nor another rank's delay.

Imports torch, the standard library and the saver that $BENCH_SAVER names, a module of this folder.
"""

import importlib
import json
import os
import time
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FEATURES, BATCH, WIDTH = 32, 16, 256
PIECE = 1 << 20  # float32 values, 4 MiB
COPIES = 3
# Local steps after a restore before the baseline copy is timed, so that it does not delay them.
SETTLED = 5


class Ballast(nn.Module):  # type: ignore[misc]
    """State that is saved and not trained."""

    def __init__(self, pieces: int) -> None:
        super().__init__()
        self.pieces = nn.ParameterList(
            nn.Parameter(torch.ones(PIECE), requires_grad=False) for _ in range(pieces)
        )
        self.layer = nn.Linear(FEATURES, 1)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return self.layer(batch)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    identity = {
        "node": int(os.environ["BENCH_NODE"]),
        "rank": rank,
        "world": dist.get_world_size(),
        "pid": os.getpid(),
        "restart": int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")),
    }
    every = int(os.environ["BENCH_EVERY"])
    model, optimizer = _trained(int(os.environ["BENCH_BYTES"]))
    saver = importlib.import_module(os.environ["BENCH_SAVER"]).Saver(model, optimizer, every)
    dist.barrier()  # so that a restore's time does not include another rank's delay
    begun = time.monotonic()
    start = saver.restore()
    restore = time.monotonic() - begun
    if start:
        _check_marks(optimizer, start)
    events = os.open(os.environ["BENCH_EVENTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    work = _Work()
    step = start
    while True:
        begun = time.monotonic()
        work.do()
        _train(model, optimizer)
        took = time.monotonic() - begun
        due = (step + 1) % every == 0
        record: dict[str, Any] = {"step": step, "took": took, "writing": saver.busy(), **identity}
        if due:
            _mark(optimizer, step + 1)
            _settle(saver)
        begun = time.monotonic()
        saver.after_step(step)
        record |= {"due": due, "save": time.monotonic() - begun, "start": start}
        if due:
            dist.barrier()  # else the next step's all-reduce would wait for the slowest save
        if start and step == start + SETTLED:
            record |= {"restore": restore, "copy": _copy_seconds(optimizer)}
        record["time"] = time.monotonic()
        os.write(events, json.dumps(record).encode() + b"\n")
        step += 1


def _trained(size: int) -> tuple[DistributedDataParallel, torch.optim.Optimizer]:
    """Build a model and an optimizer whose state has ``size`` bytes in all, all of it touched."""
    torch.manual_seed(0)
    plain = Ballast(max(1, size // (2 * 4 * PIECE)))
    ballast = [name for name, _ in plain.named_parameters() if name.startswith("pieces")]
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(plain, ballast)
    model = DistributedDataParallel(plain)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for piece in plain.pieces:
        optimizer.state[piece]["momentum_buffer"] = torch.ones(PIECE)
    return model, optimizer


def _train(model: DistributedDataParallel, optimizer: torch.optim.Optimizer) -> None:
    loss = model(torch.randn(BATCH, FEATURES)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


class _Work:
    """The part of a step besides training: sleep, or compute for about as long."""

    def __init__(self) -> None:
        self._seconds = float(os.environ["BENCH_STEP_SECONDS"])
        self._matrix = torch.rand(WIDTH, WIDTH)
        self._turns = 0
        if os.environ.get("BENCH_COMPUTE"):
            begun = time.monotonic()
            for _ in range(COPIES * 10):
                torch.mm(self._matrix, self._matrix)
            one = (time.monotonic() - begun) / (COPIES * 10)
            self._turns = max(1, round(self._seconds / one))

    def do(self) -> None:
        if not self._turns:
            time.sleep(self._seconds)
        for _ in range(self._turns):
            torch.mm(self._matrix, self._matrix)


def _settle(saver: Any) -> None:
    while saver.busy():
        time.sleep(0.01)
    dist.barrier()


def _ballast(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    pieces = [piece for piece in optimizer.param_groups[0]["params"] if not piece.requires_grad]
    return [*pieces, *(optimizer.state[piece]["momentum_buffer"] for piece in pieces)]


def _mark(optimizer: torch.optim.Optimizer, step: int) -> None:
    for tensor in _ballast(optimizer):
        tensor.data[0] = step


def _check_marks(optimizer: torch.optim.Optimizer, step: int) -> None:
    for tensor in _ballast(optimizer):
        if float(tensor[0]) != step or float(tensor[-1]) != 1:
            raise SystemExit(f"restored step {step}, but its state holds {float(tensor[0]):g}")


def _copy_seconds(optimizer: torch.optim.Optimizer) -> float:
    """The median time of a few copies of the same bytes between memory that was touched before, by
    all ranks at once, as in a restore."""
    source = _ballast(optimizer)
    target = [torch.ones_like(tensor) for tensor in source]
    times = []
    for _ in range(COPIES):
        dist.barrier()
        begun = time.monotonic()
        for there, here in zip(target, source, strict=True):
            there.data.copy_(here.data)
        times.append(time.monotonic() - begun)
    return sorted(times)[COPIES // 2]


if __name__ == "__main__":
    main()
