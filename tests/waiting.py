"""Waiting for a condition, on an event loop. `tests.local.commands.wait_for` is for other tests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

PATIENCE = 30.0
"""The timeout of a wait, generous for a busy machine."""


async def eventually(condition: Callable[[], Any], what: str, *, timeout: float = PATIENCE) -> None:
    """Wait until ``condition`` is true."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"timed out after {timeout:g} s waiting for {what}")
        await asyncio.sleep(0.01)
