"""Thousands of simulated agents form a round, lose one and form it again.

Each system gets its real master or store in a separate process, and one process that simulates all
agents with the system's own client code: `resile_agents`, `c10d_agents`, `dlrover_agents`.
`systems` builds their command lines, `trial` runs them and reads their output, `sweep` goes through
the sizes. Everything runs on this machine, so a figure is an upper bound of the time that the
master alone would need; the master's own CPU time is shown beside it.
"""
