"""The cost of saving during training, and the time to recover a job with its state.

All systems train the same script, `script/train.py`, on the same amount of state, and differ in how
they save it: Resile's Checkpointer under `resile run`, DLRover's flash checkpoint under
`dlrover-run`, and under torchrun `torch.save`, `torch.distributed.checkpoint.async_save` and a
plain copy of the same bytes, which is the baseline. The script writes into its step records how
long saving and restoring took, in each rank.

    script      the workers' program; runs also where neither Resile nor the bench is installed
    systems     a launcher with the script and a saver; the settings of the script
    records     pure: from step records to figures
    loopback    a transfer through a local socket, the baseline for another node's memory
    episodes    one job each: save often, write to storage, kill a worker, lose a node
    catalogue   which episode, which systems, which target
"""
