"""The nursery: starts a node's workers, warm where possible, and hosts the stores of rounds.

`Nursery` is the way in. Each module of this package says what it is for; the code in `inside` and
`hook` runs in the nursery's own process and imports nothing but the standard library.
"""

from .check import CheckFailed, CheckResult, check_preload
from .command import CommandKind, WorkerCommand, WorkerSpec
from .errors import (
    NurseryClosed,
    NurseryDied,
    NurseryError,
    PreloadSyntaxError,
    SpawnFailed,
    StoreUnavailable,
)
from .inside.latecomer import late_modules
from .nursery import Nursery
from .policy import NurseryPolicy
from .preload import Preload, PreloadMode
from .worker import StoreHost, Worker

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
    "late_modules",
]
