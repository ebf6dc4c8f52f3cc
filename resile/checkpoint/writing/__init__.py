"""The process that carries a node's snapshots away: to storage, and to other nodes.

It is a process of its own at the lowest priority, so that training feels as little of it as can be,
and storage that hangs hangs nothing else. `Carrier` is its owner's handle; `__main__` is the
process itself.
"""

from resile.checkpoint.writing.carrier import Carrier
from resile.checkpoint.writing.messages import (
    Failed,
    Finished,
    Gather,
    Moved,
    Order,
    Progress,
    Publication,
    Published,
    Receive,
    Send,
    Stop,
    Stopped,
    Target,
    Write,
    Written,
)

__all__ = [
    "Carrier",
    "Failed",
    "Finished",
    "Gather",
    "Moved",
    "Order",
    "Progress",
    "Publication",
    "Published",
    "Receive",
    "Send",
    "Stop",
    "Stopped",
    "Target",
    "Write",
    "Written",
]
