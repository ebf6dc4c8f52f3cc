"""Jobs and workers that are ended with their test, and a small disk."""

from tests.local.checkpoint.disks import small_disk
from tests.local.checkpointer.workers import start
from tests.local.training import trained

__all__ = ["small_disk", "start", "trained"]
