"""The snapshots of this node, held in the agent's memory.

The memory belongs to the agent, so it outlives workers and rounds and is freed with the agent,
however that ends. All work is done in threads and in a process of its own: the agent's event loop
never blocks.
"""

from resile.agent.snapshots.snapshots import Snapshots

__all__ = ["Snapshots"]
