"""A small disk that fills up quickly."""

from tests.local.checkpoint.disks import small_disk

__all__ = ["small_disk"]
