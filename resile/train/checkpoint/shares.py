"""Division of replicated tensors among a node's workers, each of which copies a share.

Every worker of the node computes it from names and sizes and gets the same result, without
communication. That holds as long as they have the same names and sizes; where they do not, a tensor
has no copy, and the restore reports it.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping

__all__ = ["SMALL", "share_out"]

SMALL = 1 << 20
"""Tensors below this are not balanced: the first worker takes them."""


def share_out(sizes: Mapping[str, int], workers: int) -> dict[str, int]:
    """Return for each name the local rank that copies it: the largest first, each to the worker
    with the least so far."""
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
