"""Fixtures for tests of `resile up`."""

from tests.local.up.ups import machine

__all__ = ["machine"]
