"""Fixtures for tests with real processes."""

from tests.local.jobs import job

__all__ = ["job"]
