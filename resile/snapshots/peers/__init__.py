"""Copies on other nodes: each node's snapshot server listens for the others, and sends to the next.

`Peers` is the entry point. Servers authenticate each other with the job's token, exchange frames
over TCP, copy parts to the next node in the background, and fetch parts or headers to restore.
"""

from resile.snapshots.peers.peers import Peers

__all__ = ["Peers"]
