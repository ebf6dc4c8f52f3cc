"""Thousands of simulated agents form a round, lose one and form it again.

Each system gets its real master or store in a process of its own, and one process that simulates
all agents with the system's own client code: `resile_agents`, `c10d_agents`, `dlrover_agents`.
`systems` writes their command lines, `trial` runs them and reads what they print, `sweep` goes
through the sizes. All of it shares this machine, so a figure is an upper bound of what the master
alone would need; the master's own CPU time is shown beside it.
"""
