"""Which of two moments of a cluster's history came first. Pure.

For most of its life Kubernetes called resourceVersions opaque; they have always been revisions of
etcd, one count for the whole cluster, and newer releases promise that they may be compared. Where
one is no integer nothing can be said about its age.
"""

from __future__ import annotations

__all__ = ["is_older"]


def is_older(one: str, other: str) -> bool:
    """Whether a resourceVersion surely is older than another."""
    return one.isdecimal() and other.isdecimal() and int(one) < int(other)
