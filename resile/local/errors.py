"""The errors of the local platform, apart from those of the nodes themselves.

::

    LocalPlatformError
    ├── CapacityError       --capacity is invalid; a user's mistake
    ├── NotLinuxError       this machine does not run Linux; a user's mistake
    ├── NoCgroupError       a memory cgroup is required, and this machine does not allow one
    ├── ApiPortUnusable     --api-port cannot be listened at
    └── NoPortError         all ports of this machine are in use

A node that cannot be started raises no exception: it is reported like any other exit of a node.
"""

from __future__ import annotations

__all__ = ["CapacityError", "LocalPlatformError", "NoCgroupError", "NoPortError"]
__all__ += ["NotLinuxError"]


class LocalPlatformError(Exception):
    """Base of all errors of the local platform."""


class CapacityError(LocalPlatformError, ValueError):
    """``--capacity`` is not an amount of cpu and memory; the message says what would be."""


class NotLinuxError(LocalPlatformError):
    """The platform needs features that only Linux has."""


class NoCgroupError(LocalPlatformError):
    """Raised when cgroups are required and cannot be used; the message says why."""


class NoPortError(LocalPlatformError):
    """Raised when a rank needs a port and none is free."""
