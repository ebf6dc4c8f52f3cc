"""A disk that is soon full."""

from tests.local.checkpoint.disks import small_disk

__all__ = ["small_disk"]
