"""The writer process: writes a node's snapshots to storage and sends them to other nodes.

It runs at the lowest priority, so that it slows training down as little as possible, and storage
that hangs blocks nothing else. `WriterProcess` is its owner's handle; `__main__` is the process
itself.
"""

from resile.snapshots.writer.messages import (
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
from resile.snapshots.writer.process import WriterProcess

__all__ = [
    "WriterProcess",
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
