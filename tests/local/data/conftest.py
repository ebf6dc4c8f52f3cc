"""Machines and jobs that are ended with their test."""

from tests.local.up.ups import machine

__all__ = ["machine"]
