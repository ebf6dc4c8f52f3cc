"""DDP over a last global batch in which ranks have different numbers of samples, or none.

Trains with torch's Join, so that ranks which ran out of data take part in what the others do.
"""

import os

import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from resile.train.data import ElasticSampler

LENGTH, BATCH = int(os.environ["LENGTH"]), int(os.environ["BATCH"])

dist.init_process_group("gloo")
data = TensorDataset(torch.arange(LENGTH, dtype=torch.float32)[:, None])
sampler = ElasticSampler(data, batch_size=BATCH, name="data")
loader = DataLoader(data, batch_size=BATCH, sampler=sampler)
model = DistributedDataParallel(torch.nn.Linear(1, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
for epoch in range(sampler.epoch, 2):
    sampler.set_epoch(epoch)
    with Join([model]):
        for (batch,) in loader:
            optimizer.zero_grad()
            model(batch).sum().backward()
            optimizer.step()
            sampler.advance()
dist.destroy_process_group()
