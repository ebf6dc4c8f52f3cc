"""Work in a background task: its end is always noticed."""

from __future__ import annotations

import asyncio

import pytest

from resile.operator.main import running_alongside


async def test_it_ends_with_the_block() -> None:
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with running_alongside([work()]):
        await asyncio.sleep(0)
        assert not ended.is_set()
    assert ended.is_set()


async def test_a_fault_in_it_ends_the_block_and_is_told() -> None:
    async def work() -> None:
        raise KeyError("metadata")

    with pytest.raises(KeyError, match="metadata"):
        async with running_alongside([work(), asyncio.Event().wait()]):
            await asyncio.Event().wait()


async def test_work_that_ends_without_a_fault_ends_the_block_too() -> None:
    with pytest.raises(RuntimeError, match="returned unexpectedly"):
        async with running_alongside([asyncio.sleep(0)]):
            await asyncio.Event().wait()


async def test_an_error_of_the_block_stays_what_it_is() -> None:
    with pytest.raises(ValueError, match="its own"):
        async with running_alongside([asyncio.Event().wait()]):
            raise ValueError("its own")
