"""The number of workers of ``--nproc-per-node``, without importing torch into the agent.

NVIDIA's devices are counted in the kernel's list of them. Only torch can count others: it runs in a
process of its own, and only if the user names them or the machine has the devices' files.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import click

from resile.job.limits import MAX_WORKERS

ACCELERATOR_FILES = ("/dev/kfd", "/dev/accel", "/dev/dri")
"""Device directories of the drivers of AMD, Intel and others."""

OUT_OF_TREE = ("npu", "mlu", "musa")
"""Devices that torch supports through a separate package."""

DEVICES = ("gpu", "xpu", *OUT_OF_TREE)

COUNT_SCRIPT = """
import sys, torch
name = {"gpu": "cuda"}.get(sys.argv[1], sys.argv[1])
if name == "auto":
    print(torch.accelerator.device_count() if torch.accelerator.is_available() else 0)
else:
    module = torch.get_device_module(name)
    print(module.device_count() if module.is_available() else 0)
"""
"""A script that prints how many devices torch sees, as torchrun counts them."""

ASKING_TIMEOUT = 120.0
"""Seconds. Importing torch from a cold disk is slow."""


def count_processes(text: str) -> int:
    """Return the number of workers for a number, ``cpu``, ``gpu``, ``xpu`` or another device of
    torch's, or ``auto``: one per device if there are any, else one per CPU."""
    if re.fullmatch("[0-9]{1,9}", text) and int(text) > 0:
        return _few_enough(int(text))
    if text == "cpu":
        return _cpus()
    if text == "auto":
        return _gpus() or _others("auto") or _cpus()
    if text not in DEVICES:
        raise click.UsageError(
            f"--nproc-per-node {text}: write a number of at least 1, or auto, cpu, gpu or xpu"
        )
    found = (_gpus() if text == "gpu" else 0) or _others(text)
    if not found:
        raise click.UsageError(f"--nproc-per-node {text}: no {text} was found on this machine")
    return found


def _few_enough(count: int) -> int:
    if count > MAX_WORKERS:
        raise click.UsageError(
            f"--nproc-per-node {count}: a node runs at most {MAX_WORKERS} workers"
        )
    return count


def _cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _others(device: str) -> int:
    there = any(Path(name).exists() for name in ACCELERATOR_FILES)
    return _seen_by_torch(device) if there or device in OUT_OF_TREE else 0


def _seen_by_torch(device: str) -> int:
    """Return how many devices of a kind torch sees; 0 if the kind is unknown or torch missing."""
    asked = [os.environ.get("PYTHON_EXEC", sys.executable), "-c", COUNT_SCRIPT, device]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, timeout=ASKING_TIMEOUT)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    answer = done.stdout.strip()
    return int(answer) if done.returncode == 0 and answer.isdecimal() else 0


def _gpus() -> int:
    """Return the number of NVIDIA devices that CUDA_VISIBLE_DEVICES makes visible."""
    folder = Path("/proc/driver/nvidia/gpus")
    found = len(list(folder.iterdir())) if folder.is_dir() else 0
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return found
    return min(found, len([device for device in visible.split(",") if device.strip()]))
