"""Several threads that save at once: one of them gets an error, and none deadlocks."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from resile import Checkpointer

THREADS = 4


@pytest.mark.timeout(120)
def test_saving_from_several_threads_is_refused_and_hangs_nobody(tmp_path: Path) -> None:
    state = {"w": torch.ones(1000), "step": 0}
    together = threading.Barrier(THREADS)

    def save(number: int) -> str:
        together.wait(60)
        try:
            ckpt.save(number, state, timeout=60)
        except RuntimeError as error:
            return str(error)
        return ""

    with Checkpointer(tmp_path) as ckpt, ThreadPoolExecutor(THREADS) as pool:
        ckpt.restore(state)
        said = list(pool.map(save, range(THREADS)))
        assert said.count("") >= 1
        for text in set(said) - {""}:
            assert "another thread is saving: call step() and save() from one thread" in text
        ckpt.save(THREADS, state, timeout=60)
