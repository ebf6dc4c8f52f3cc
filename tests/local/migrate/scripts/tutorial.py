"""A script as the tutorial of pytorchjob-migration has it: its block, as it stands there, between
a model and a loop over epochs.

Every epoch is one step and appends a line to $STEPS_FILE; it ends after $STEPS.
"""
# The block is as its author wrote it.
# ruff: noqa: E402, I001, RUF100, UP032

import os

import torch
import torch.distributed as dist
from recording import note, pause
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(37, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

# fmt: off
# metircs to be recorded
metircs = {'epoch': -1, 'best_epoch': -1, 'best_acc': 0.}

# A migrator helps training models on k8s more secure.
from migration import migrator
migrator.register('model', model)
migrator.register('optimizer', optimizer)
migrator.register('metircs', metircs)
migrator.listening()
if migrator.resume:  # note: migrate_ckpt has higher priority than args.ckpt
    migrator.load_ckpt()  # load ckpt at all ranks
    print('load migration ckpt from epoch {}, metrics: {}'.format(
        metircs['epoch'], metircs))
# fmt: on

note("fresh" if metircs["epoch"] < 0 else "resumed", metircs["epoch"] + 1)
for epoch in range(metircs["epoch"] + 1, int(os.environ["STEPS"])):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(torch.randn(8, 37)), torch.arange(8)).backward()
    optimizer.step()
    note("stepped", epoch)
    accuracy = float((epoch * 37) % 101)
    if accuracy > metircs["best_acc"]:
        metircs["best_acc"], metircs["best_epoch"] = accuracy, epoch
    metircs["epoch"] = epoch
    note("step", epoch)
    pause("0.01")
dist.destroy_process_group()
