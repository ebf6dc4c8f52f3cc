"""What can go wrong with a nursery.

NurseryError
├── PreloadSyntaxError   the user's mistake: `--preload` cannot be understood
├── CheckFailed          a script cannot be compared, since it does not come to its end (`check`)
├── SpawnFailed          the machine's fault: no process could be started
├── StoreUnavailable     a store was asked for where torch cannot be imported, or cannot listen
├── NurseryDied          a nursery process ended in the middle of a request
└── NurseryClosed        our bug: something was asked of a nursery after `close`
"""


class NurseryError(Exception):
    """Anything this room raises on purpose."""


class PreloadSyntaxError(NurseryError, ValueError):
    """`--preload` is neither `auto` nor `none` nor a list of module names."""


class SpawnFailed(NurseryError):
    """A worker could not be started; those already started for the same request were killed."""


class StoreUnavailable(NurseryError):
    """No store can be hosted here, and the message says why."""


class NurseryDied(NurseryError):
    """The nursery process ended before it answered. The next request starts a new one."""


class NurseryClosed(NurseryError):
    """`close` was called before."""
