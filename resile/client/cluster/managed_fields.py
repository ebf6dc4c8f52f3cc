"""Transfer fields written by `kubectl apply` to another owner. Pure.

Without ``--server-side``, kubectl writes fields as an ordinary update and stores the manifest in
an annotation. For server-side apply these fields belong to another owner, and what a later manifest
leaves out would stay forever. So kubectl's entries are rewritten as if the new owner had applied
them, as kubectl itself does when it migrates (client-go's ``csaupgrade``). The annotation is among
these fields and is removed by the first apply.
"""

from __future__ import annotations

from typing import Any, TypeAlias

__all__ = ["LAST_APPLIED", "migrate_from_kubectl"]

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
KUBECTL = "kubectl-client-side-apply"

Entry: TypeAlias = dict[str, Any]
"""An entry of an object's ``metadata.managedFields``."""


def migrate_from_kubectl(entries: list[Entry], *, to: str) -> list[Entry] | None:
    """Return the entries after the migration; None if there is nothing to migrate.

    Of entries in different API versions only those of the new owner's version are merged: paths of
    one version mean nothing in another.
    """
    given = [entry for entry in entries if _is_kubectls(entry)]
    if not given:
        return None
    own = next((entry for entry in entries if _is_applied(entry, by=to)), None)
    first = own or {**given[0], "manager": to, "operation": "Apply"}
    fields = first.get("fieldsV1") or {}
    for entry in given:
        if entry.get("apiVersion") == first.get("apiVersion"):
            fields = _union(fields, entry.get("fieldsV1") or {})
    others = [entry for entry in entries if entry not in given and entry is not own]
    return [{**first, "fieldsV1": fields}, *others]


def _is_kubectls(entry: Entry) -> bool:
    """Return whether `kubectl apply` wrote it, under whatever field manager's name."""
    if entry.get("operation") != "Update" or entry.get("subresource"):
        return False
    metadata = (entry.get("fieldsV1") or {}).get("f:metadata") or {}
    annotated = f"f:{LAST_APPLIED}" in (metadata.get("f:annotations") or {})
    return annotated or entry.get("manager") == KUBECTL


def _is_applied(entry: Entry, *, by: str) -> bool:
    applied = entry.get("operation") == "Apply" and not entry.get("subresource")
    return applied and entry.get("manager") == by


def _union(one: Entry, other: Entry) -> Entry:
    """Return the union of two sets of fields, each a tree of names."""
    merged = dict(one)
    for name, below in other.items():
        merged[name] = _union(merged.get(name) or {}, below or {})
    return merged
