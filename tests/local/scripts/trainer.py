"""A small model trained with a Checkpointer, on the same global batches at any world size.

Each rank loads its share of a global batch through an elastic sampler; then all ranks gather the
shares, and each trains on the whole. So the model after n steps is the same to the bit, whatever
happened before them; the result is written to $RESULT. With $LEASED the data is leased from the
master, for that many epochs, and the records of a step depend on the order of the requests.

With $IN_GROUP it declares that it is in this group of its job.

Every step appends a line to $STEPS_FILE. Training ends after $STEPS, or at the end of a step in
which a rank sees the file ``finish``.
"""

import os
from collections.abc import Iterator
from itertools import count

import torch
import torch.distributed as dist
from recording import beside, note, pause, write_result
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from resile import Checkpointer, ElasticBatchSampler, ShardedDataset

STEPS, EVERY = int(os.environ["STEPS"]), int(os.environ.get("EVERY", "5"))
LEASED = int(os.environ.get("LEASED", "0"))
LENGTH, GLOBAL_BATCH = 57, 8
"""An epoch has 8 steps, and its last one a single sample: a second rank has no share in it."""

if group := os.environ.get("IN_GROUP"):
    os.environ["RESILE_GROUP"] = group

Samples = tuple[torch.Tensor, torch.Tensor]


def sampled(data: TensorDataset, sampler: ElasticBatchSampler) -> Iterator[Samples]:
    """This rank's share of one global batch after the other; an empty one where it has none."""
    loader = DataLoader(data, batch_sampler=sampler)
    for epoch in count(sampler.epoch):
        sampler.set_epoch(epoch)
        loaded = iter(loader)
        while not sampler.finished:
            yield next(loaded) if sampler.shares()[dist.get_rank()] else data[:0]


def leased(dataset: ShardedDataset) -> Iterator[Samples]:
    """This rank's batches, to the end of the last epoch."""
    loader = dataset.loader(batch_size=4)
    for _ in dataset.remaining_epochs():
        for inputs, labels in loader:
            yield inputs[: dataset.share], labels[: dataset.share]


def together(own: Samples) -> tuple[torch.Tensor, torch.Tensor, bool]:
    """The samples of all ranks, in rank order, and whether a rank has seen the file ``finish``."""
    shares: list = [None] * dist.get_world_size()
    dist.all_gather_object(shares, (*own, beside("finish").exists()))
    inputs, labels, finish = zip(*shares, strict=True)
    return torch.cat(inputs), torch.cat(labels), any(finish)


dist.init_process_group("gloo")
torch.manual_seed(0)
data = TensorDataset(torch.randn(LENGTH, 37), torch.arange(LENGTH) % 10)
model: nn.Module = nn.Sequential(nn.Linear(37, 64), nn.ReLU(), nn.Linear(64, 10))
if os.environ.get("SHARDED"):
    from torch.distributed.fsdp import fully_shard

    fully_shard(model, mesh=dist.init_device_mesh("cpu", (dist.get_world_size(),)))
else:
    model = DistributedDataParallel(model)
optimizer = torch.optim.Adam(model.parameters())
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 7)
state = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "step": 0}
if LEASED:
    state["data"] = dataset = ShardedDataset(data, shard_size=6, epochs=LEASED, name="data")
    batches = leased(dataset)
else:
    state["data"] = sampler = ElasticBatchSampler(data, global_batch=GLOBAL_BATCH, name="data")
    batches = sampled(data, sampler)
checkpointer = Checkpointer(os.environ.get("CHECKPOINTS") or None, every=EVERY, keep=3)
start = checkpointer.restore(state)
assert state["step"] == start
note(f"resumed from {checkpointer.resumed.source.value}", start)
for step, own in zip(range(start, STEPS), batches, strict=False):
    inputs, labels, finish = together(own)
    loss = nn.functional.cross_entropy(model(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    note("trained", step)
    checkpointer.step(step, state)
    note("step", step)
    if (copied := checkpointer.status().copied) is not None:
        note("copied", copied)
    if finish:
        break
    pause("0.01")
write_result(model)
checkpointer.close()
dist.destroy_process_group()
