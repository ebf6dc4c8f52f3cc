"""Snapshots: a node's training state in memory, held by a snapshot server for its workers.

Under an agent the server runs in the agent's process and outlives workers (`SnapshotListener`,
`AgentSnapshotClient`); without one a worker holds its own snapshots (`LocalSnapshotClient`). To its
users each is a `SnapshotClient`. `SnapshotServer` answers requests, `SlotTable` is the table of
slots, the package `peers` copies parts to other nodes, and the package `writer` is the process that
writes them to storage.

Nothing is imported here: the writer process and the command line need only some of the modules.
"""
