"""A user's first training script: a model, a Checkpointer, and samples that count once."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from resile import Checkpointer, ElasticBatchSampler

SAMPLES, BATCH = 48, 4

dist.init_process_group("gloo")
data = TensorDataset(torch.arange(float(SAMPLES)).unsqueeze(1))
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(1, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
sampler = ElasticBatchSampler(data, global_batch=BATCH)
checkpointer = Checkpointer("checkpoints", every=2, checkpoint_every=4)
state = {"model": model, "optimizer": optimizer, "sampler": sampler, "step": 0}
step = checkpointer.restore(state)
for (inputs,) in DataLoader(data, batch_sampler=sampler):
    optimizer.zero_grad()
    model(inputs).square().mean().backward()
    optimizer.step()
    checkpointer.step(step, state)
    step += 1
checkpointer.wait()
dist.barrier()
if dist.get_rank() == 0:
    print(f"trained {step} steps", flush=True)
checkpointer.close()
dist.destroy_process_group()
