"""Jobs that are ended with their test."""

from tests.local.training import trained

__all__ = ["trained"]
