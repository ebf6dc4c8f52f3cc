"""The stores of one round: the workers' TCPStore, and an in-memory one for torchrun's agent.

The workers' store is a TCPStore of this round only, in the process of the node with group rank 0:
data of a dead round cannot be read from it.

torchrun's agents use a store for two things: to agree on ranks, and to wait for each other at the
end. In both an agent whose peer dies meanwhile hangs for minutes. But the master has already
assigned the ranks, and it is the master that knows when all have ended. So the agent gets a store
in its own memory that already contains everything its peers would have written.
"""

from __future__ import annotations

import json
import socket
from datetime import timedelta

from torch.distributed import HashStore, TCPStore
from torch.distributed.elastic.agent.server.api import WorkerSpec

from resile.wire.messages import Start, StoreAddress

BACKLOG = 4096

STORE_TIMEOUT = timedelta(minutes=5)
"""Timeout for the host's own client to connect, on a very busy machine."""

AGENT_TIMEOUT = timedelta(seconds=10)
"""Nothing should ever wait on the agent's store: a wait means that torch changed its keys."""

ROLE_INFO = "torchelastic/role_info/{}"
ASSIGNED_RANKS = "torchelastic/assigned_ranks/{}"
FINISHED_AGENTS = "torchelastic/agent/terminal_state/num_members"


class WorkerStore:
    """Serves one round's workers as long as it is referenced."""

    def __init__(self, host: str) -> None:
        """Listen on a free port of ``host`` only; by default a TCPStore listens on all
        addresses."""
        family = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, 0), family=family, backlog=BACKLOG)
        self.address = StoreAddress(host, listener.getsockname()[1])
        self._store = TCPStore(
            host,
            self.address.port,
            is_master=True,
            wait_for_workers=False,
            timeout=STORE_TIMEOUT,
            master_listen_fd=listener.detach(),
        )


def agent_store(start: Start, spec: WorkerSpec) -> HashStore:
    """Build a store with the ranks for torchrun's agent, and with its exit barrier passed."""
    store = HashStore()
    store.set_timeout(AGENT_TIMEOUT)
    own, others = start.group_rank, range(start.group_world_size)
    ranks = [start.first_rank, start.world_size] * 2
    store.set(ASSIGNED_RANKS.format(own), json.dumps(ranks))
    # Only the first node sums up the workers of all, starting at 0: it does not matter which of the
    # others runs how many workers as long as the sum is right.
    rest = start.world_size - spec.local_world_size
    for node in others:
        if node != own:
            info = {"role": spec.role, "rank": node, "local_world_size": rest}
            store.set(ROLE_INFO.format(node), json.dumps(info))
            rest = 0
    store.add(FINISHED_AGENTS, start.group_world_size - 1)
    return store
