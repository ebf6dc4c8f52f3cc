"""The order of resourceVersions. Pure.

For most of its life Kubernetes called resourceVersions opaque; they have always been revisions of
etcd, one counter for the whole cluster, and newer releases guarantee that they can be compared. One
that is not an integer cannot be compared.
"""

from __future__ import annotations

__all__ = ["is_older"]


def is_older(one: str, other: str) -> bool:
    """Return whether a resourceVersion is certainly older than another."""
    return one.isdecimal() and other.isdecimal() and int(one) < int(other)
