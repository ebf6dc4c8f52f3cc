"""Names that are the same for all jobs."""

from __future__ import annotations

__all__ = ["OPERATOR_LEASE"]

OPERATOR_LEASE = "resile-operator"
"""The Lease that the leading operator holds."""
