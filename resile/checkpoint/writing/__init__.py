"""The writer process: writes a node's snapshots to storage and sends them to other nodes.

It runs at the lowest priority, so that it slows training down as little as possible, and storage
that hangs blocks nothing else. `Carrier` is its owner's handle; `__main__` is the process itself.
"""

from resile.checkpoint.writing.carrier import Carrier
from resile.checkpoint.writing.messages import (
    CheckpointPublication,
    CollapsePages,
    Failed,
    Finished,
    Moved,
    Order,
    PartsWritten,
    Published,
    Receive,
    Send,
    Stopped,
    StopTransfer,
    Target,
    Write,
    WriteProgress,
)

__all__ = [
    "Carrier",
    "Failed",
    "Finished",
    "CollapsePages",
    "Moved",
    "Order",
    "WriteProgress",
    "CheckpointPublication",
    "Published",
    "Receive",
    "Send",
    "StopTransfer",
    "Stopped",
    "Target",
    "Write",
    "PartsWritten",
]
