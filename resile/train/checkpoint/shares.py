"""Who of a node's workers copies which of the tensors that they all have alike.

Every worker of the node works it out for itself from names and sizes and comes to the same result,
so nothing is said between them. It holds as long as they have the same names and sizes; where they
do not, a tensor has no copy and the checkpoint says so when it is read.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping

__all__ = ["SMALL", "share_out"]

SMALL = 1 << 20
"""Below this a tensor is not worth a place of its own in the balance: the first worker takes it."""


def share_out(sizes: Mapping[str, int], workers: int) -> dict[str, int]:
    """For each name the local rank that copies it: the largest first, each to whoever has least."""
    owners = {name: 0 for name, size in sizes.items() if size < SMALL}
    loads = [(0, local_rank) for local_rank in range(workers)]
    loads[0] = (sum(sizes[name] for name in owners), 0)
    heapq.heapify(loads)
    large = (name for name in sizes if name not in owners)
    for name in sorted(large, key=lambda name: (-sizes[name], name)):
        load, local_rank = heapq.heappop(loads)
        owners[name] = local_rank
        heapq.heappush(loads, (load + sizes[name], local_rank))
    return owners
