"""What saving costs training, and how fast a job is back with its state.

All systems train the same script, `script/train.py`, on the same amount of state, and differ in
what they save it with: Resile's Checkpointer under `resile run`, DLRover's flash checkpoint under
`dlrover-run`, and under torchrun `torch.save`, `torch.distributed.checkpoint.async_save` and a
plain copy of the same bytes, which is the yardstick. The script writes into its step records how
long saving and restoring took, in each rank.

    script      what the workers run; also where neither Resile nor the bench is installed
    systems     a launcher with the script and a saver; what the script is to do
    records     pure: from step records to figures
    loopback    bytes through a socket of this machine, the yardstick for another node's memory
    episodes    one job each: save often, write to storage, kill a worker, lose a node
    catalogue   which episode, which systems, which target
"""
