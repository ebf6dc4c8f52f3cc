"""Training that keeps its state in a file, with loader processes, until a worker kills itself.

In round 1 rank 1 kills itself in the step $DIES_AT, without a message. It is a typical script with
ElasticSampler, with the simplest possible saving of state.
"""

import json
import os
import signal
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

from resile.train.data import ElasticSampler

LENGTH, EPOCHS, EVERY = 103, 2, 4
STATE = Path(os.environ["STATE_FILE"])
ROUND, RANK = int(os.environ["RESILE_ROUND"]), int(os.environ["RANK"])

dist.init_process_group("gloo")
data = TensorDataset(torch.arange(LENGTH))
sampler = ElasticSampler(data, batch_size=3, drop_last=False, name="data")
if STATE.exists():
    sampler.load_state_dict(json.loads(STATE.read_text()))
loader = DataLoader(
    data, batch_size=3, sampler=sampler, num_workers=2, prefetch_factor=3, persistent_workers=True
)
for epoch in range(sampler.epoch, EPOCHS):
    sampler.set_epoch(epoch)
    batches = iter(loader)
    while not sampler.finished:
        next(batches, None)
        dist.all_reduce(torch.ones(1))
        step = sampler.state_dict()["steps"]
        if ROUND == 1 and RANK == 1 and step == int(os.environ["DIES_AT"]):
            os.kill(os.getpid(), signal.SIGKILL)
        sampler.advance()
        dist.barrier()
        if RANK == 0 and step % EVERY == 0:
            STATE.with_suffix(".new").write_text(json.dumps(sampler.state_dict()))
            STATE.with_suffix(".new").replace(STATE)
dist.destroy_process_group()
