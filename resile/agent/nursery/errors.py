"""Errors of the nursery.

NurseryError
├── PreloadSyntaxError   the user's mistake: `--preload` cannot be parsed
├── CheckFailed          a script cannot be compared, since it does not run to its end (`check`)
├── SpawnFailed          the machine's fault: no process could be started
├── StoreUnavailable     a store was requested where torch cannot be imported, or cannot listen
├── NurseryDied          a nursery process died during a request
└── NurseryClosed        our bug: a request was made after `close`
"""


class NurseryError(Exception):
    """Base class of all errors that this package raises on purpose."""


class PreloadSyntaxError(NurseryError, ValueError):
    """`--preload` is neither `auto` nor `none` nor a list of module names."""


class SpawnFailed(NurseryError):
    """Raised if a worker cannot be started; others of the same request were killed."""


class StoreUnavailable(NurseryError):
    """Raised if no store can be hosted here; the message says why."""


class NurseryDied(NurseryError):
    """Raised if the nursery process dies before it answers. The next request starts a new one."""


class NurseryClosed(NurseryError):
    """Raised for a request after `close`."""
