"""How many workers ``--nproc-per-node`` means, without importing torch into the agent."""

from __future__ import annotations

import os
import re
from pathlib import Path

import click

from resile.job.limits import MOST_WORKERS


def count_processes(text: str) -> int:
    """A number, ``cpu``, ``gpu``, or ``auto``: a GPU each where there are some, else a CPU each."""
    if re.fullmatch("[0-9]{1,9}", text) and int(text) > 0:
        return _few_enough(int(text))
    if text == "cpu":
        return _cpus()
    if text == "gpu":
        if not (gpus := _gpus()):
            raise click.UsageError("--nproc-per-node gpu: no GPU was found on this machine")
        return gpus
    if text == "auto":
        return _gpus() or _cpus()
    raise click.UsageError(
        f"--nproc-per-node {text}: write a number of at least 1, or auto, cpu or gpu"
    )


def _few_enough(count: int) -> int:
    if count > MOST_WORKERS:
        raise click.UsageError(
            f"--nproc-per-node {count}: a node runs at most {MOST_WORKERS} workers"
        )
    return count


def _cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _gpus() -> int:
    """NVIDIA devices, as far as CUDA_VISIBLE_DEVICES lets them be seen."""
    folder = Path("/proc/driver/nvidia/gpus")
    found = len(list(folder.iterdir())) if folder.is_dir() else 0
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return found
    return min(found, len([device for device in visible.split(",") if device.strip()]))
