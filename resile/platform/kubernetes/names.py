"""Names of objects that do not belong to a job."""

from __future__ import annotations

__all__ = ["OPERATOR_LEASE"]

OPERATOR_LEASE = "resile-operator"
"""The Lease that the leading operator holds."""
