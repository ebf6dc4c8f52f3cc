"""The warm fork server (the nursery): starts a node's workers and hosts the stores of rounds.

A nursery process has already imported what the script imports, and workers are forked from it;
where that is not possible they are started cold. `Nursery` is the entry point. The code in `inside`
and `hook` runs in the nursery process itself and imports nothing but the standard library.
"""

from .check import CheckFailed, CheckResult, check_preload
from .errors import (
    NurseryClosed,
    NurseryDied,
    NurseryError,
    PreloadSyntaxError,
    SpawnFailed,
    StoreUnavailable,
)
from .inside.worker_start import fallback_modules
from .nursery import Nursery
from .options import NurseryPolicy, Preload, PreloadMode
from .worker import CommandKind, StoreHost, Worker, WorkerCommand, WorkerSpec

__all__ = [
    "CheckFailed",
    "CheckResult",
    "CommandKind",
    "Nursery",
    "NurseryClosed",
    "NurseryDied",
    "NurseryError",
    "NurseryPolicy",
    "Preload",
    "PreloadMode",
    "PreloadSyntaxError",
    "SpawnFailed",
    "StoreHost",
    "StoreUnavailable",
    "Worker",
    "WorkerCommand",
    "WorkerSpec",
    "check_preload",
    "fallback_modules",
]
