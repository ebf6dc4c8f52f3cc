"""Progress reports of scripts reach their agent, also if fields are left out."""

from __future__ import annotations

import asyncio
import os

import pytest

import resile.train.progress as sent
from resile.agent.progress import ProgressSocket
from resile.wire.messages import Progress


async def _heard(socket: ProgressSocket, wanted: Progress) -> None:
    async def arrives() -> None:
        while socket.latest({os.getsid(0)}) != wanted:
            await asyncio.sleep(0.001)

    await asyncio.wait_for(arrives(), timeout=30)


async def test_steps_losses_and_totals_come_together(monkeypatch: pytest.MonkeyPatch) -> None:
    socket = ProgressSocket()
    try:
        socket.new_round(2)
        monkeypatch.setenv("RESILE_PROGRESS_SOCKET", socket.name)
        monkeypatch.setenv("RESILE_ROUND", "2")
        monkeypatch.setattr(sent, "_socket", None)
        monkeypatch.setattr(sent, "_script_reports", False)
        sent.report_resumed(40, "storage")
        sent.report_checkpointer_step(40)
        await _heard(socket, Progress(step=40, resumed=40, source="storage"))
        sent.report(41, loss=0.5, total=100)
        sent.report_checkpointer_step(7)
        sent.report(42)
        known = Progress(step=42, loss=0.5, total=100, resumed=40, source="storage")
        await _heard(socket, known)
        sent.report(43, loss=float("nan"))
        await _heard(socket, Progress(step=43, total=100, resumed=40, source="storage"))
    finally:
        socket.close()
