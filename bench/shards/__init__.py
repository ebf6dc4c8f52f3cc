"""The rate at which one master leases shards of data to many clients that do nothing else.

Each system gets its real master in a separate process, and a few processes that simulate the
clients with the system's own client code: `resile_clients`, `dlrover_clients`. A client takes a
shard, reports it as done and takes the next, as fast as it can. Shards are counted in one time
window that all processes know beforehand, so that start-up is not measured.

The figure is the time per shard in microseconds, because in all benchmarks less is better: a
million divided by it is the number of shards per second. Everything runs on this machine.
"""
