"""How many shards of data one master leases, with many clients that do nothing but ask.

Each system gets its real master in a process of its own, and a few processes that play the clients
with the system's own client code: `resile_clients`, `dlrover_clients`. A client takes a shard,
reports it as done and takes the next, as fast as it can. What is counted is shards taken in one
window of time that all processes know beforehand, so that starting up counts for nobody.

The figure is the time a shard costs, because everywhere in the benchmarks less is better: a million
over it is the number of shards a second. All of it shares this machine.
"""
