"""What can go wrong with this machine as a platform, apart from the nodes themselves.

::

    LocalPlatformError
    ├── CapacityError       --capacity cannot be read; a user's mistake
    ├── NotLinuxError       this machine is not Linux; a user's mistake
    ├── NoCgroupError       a memory cgroup was insisted on, and this machine has none to give
    ├── ApiPortUnusable     --api-port cannot be listened at
    └── NoPortError         all ports of this machine are in use

A node that cannot be started is no exception: it is reported, like any other end of a node.
"""

from __future__ import annotations

__all__ = ["CapacityError", "LocalPlatformError", "NoCgroupError", "NoPortError"]
__all__ += ["NotLinuxError"]


class LocalPlatformError(Exception):
    """Base of everything this room raises on purpose."""


class CapacityError(LocalPlatformError, ValueError):
    """``--capacity`` is not an amount of cpu and memory; the text says what would be."""


class NotLinuxError(LocalPlatformError):
    """Nodes are kept together and ended with means that only Linux has."""


class NoCgroupError(LocalPlatformError):
    """Raised when cgroups were asked for by name and cannot be used; the text says why."""


class NoPortError(LocalPlatformError):
    """Raised when a rank needs a port and none is free."""
