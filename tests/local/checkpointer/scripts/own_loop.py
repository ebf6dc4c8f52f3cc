"""A custom loop over DataLoaders of all kinds, with everything that draws random numbers.

In each round the worker kills itself in the step that $DIES_AT names for it. The result of the
training, and the numbers that every step drew, are written to $RESULT.
"""

import hashlib
import json
import os
import random
import signal
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset

from resile import Checkpointer, ElasticBatchSampler, ElasticSampler

LENGTH, BATCH, EPOCHS = 30, 5, 3
ROUND = int(os.environ["RESILE_ROUND"])
DIES_AT = [int(step) for step in os.environ["DIES_AT"].split(",") if step]


class Noisy(Dataset[torch.Tensor]):
    """Draws numbers for each sample, in the process that reads it."""

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((4,), float(index)) + torch.rand(4) + random.random()


class Plain(Noisy):
    """Draws none: for loaders with worker processes, whose random streams cannot be restored."""

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((4,), float(index))


torch.manual_seed(7)
random.seed(7)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
alone = ElasticSampler(Noisy(), batch_size=BATCH)
second = ElasticSampler(Noisy(), batch_size=BATCH)
lists = ElasticBatchSampler(Plain(), global_batch=BATCH)
lasting = ElasticSampler(Plain(), batch_size=BATCH)
samplers = {"alone": alone, "second": second, "lists": lists, "lasting": lasting}
workers = {"num_workers": 1, "multiprocessing_context": "fork"}
loaders = {
    "alone": DataLoader(Noisy(), batch_size=BATCH, sampler=alone),
    "second": DataLoader(Noisy(), batch_size=BATCH, sampler=second),
    "lists": DataLoader(Plain(), batch_sampler=lists, **workers),
    "lasting": DataLoader(
        Plain(), batch_size=BATCH, sampler=lasting, persistent_workers=True, **workers
    ),
}
chosen = os.environ["LOADERS"].split(",")
drawn: dict[str, float] = {}
state = {
    "model": model,
    "optimizer": optimizer,
    "drawn": drawn,
    "step": 0,
    **{name: samplers[name] for name in chosen},
}
checkpointer = Checkpointer(None, every=1)
step = checkpointer.restore(state)
torch.rand(ROUND)  # code at this point makes no difference
for epoch in range(samplers[chosen[0]].epoch, EPOCHS):
    for name in chosen:
        samplers[name].set_epoch(epoch)
    for batches in zip(*(loaders[name] for name in chosen), strict=False):
        optimizer.zero_grad()
        loss = sum((model(batch) ** 2).mean() for batch in batches)
        loss.backward()
        optimizer.step()
        state["drawn"][str(step)] = loss.item() + torch.rand(1).item() + random.random()
        checkpointer.step(step, state)
        step += 1
        if len(DIES_AT) >= ROUND and step == DIES_AT[ROUND - 1]:
            os.kill(os.getpid(), signal.SIGKILL)
digest = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters()))
result = {"weights": digest.hexdigest(), "drawn": state["drawn"], "rounds": ROUND}
Path(os.environ["RESULT"]).write_text(json.dumps(result))
