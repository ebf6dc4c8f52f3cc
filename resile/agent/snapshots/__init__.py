"""The agent as the keeper of its node's snapshots.

The memory is the agent's, so it outlives workers and rounds and is gone with the agent, however
that ends. Everything runs in threads and in a process of its own: the agent's loop never waits.
"""

from resile.agent.snapshots.snapshots import Snapshots

__all__ = ["Snapshots"]
