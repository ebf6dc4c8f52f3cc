"""Taking over kubectl's part of managedFields."""

from __future__ import annotations

from typing import Any

from resile.client.cluster.managed_fields import LAST_APPLIED, migrate_from_kubectl


def entry(manager: str, operation: str, *fields: str, **more: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {f"f:{name}": {} for name in fields}
    head = {"manager": manager, "operation": operation, "apiVersion": "resile.dev/v1alpha1"}
    return {**head, "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": spec}, **more}


KUBECTL = entry("kubectl-client-side-apply", "Update", "roles", "suspend")
OTHER = entry("resile", "Update", "replicas")


def test_nothing_is_to_be_done_where_kubectl_applied_nothing() -> None:
    served = entry("kubectl", "Apply", "roles")
    scaled = entry("kubectl-client-side-apply", "Update", "replicas", subresource="scale")
    for entries in ([], [OTHER], [served, scaled], [entry("mine", "Apply", "roles")]):
        assert migrate_from_kubectl(entries, to="mine") is None


def test_its_entry_becomes_the_new_owners() -> None:
    assert migrate_from_kubectl([OTHER, KUBECTL], to="mine") == [
        entry("mine", "Apply", "roles", "suspend"),
        OTHER,
    ]


def test_it_is_merged_into_what_the_new_owner_has() -> None:
    own = entry("mine", "Apply", "maxRestarts", "roles")
    after = migrate_from_kubectl([KUBECTL, own, OTHER], to="mine")
    assert after == [entry("mine", "Apply", "maxRestarts", "roles", "suspend"), OTHER]
    assert migrate_from_kubectl(after, to="mine") is None
    assert own == entry("mine", "Apply", "maxRestarts", "roles"), "what is given stays as it is"


def test_kubectl_is_known_by_its_annotation_under_any_name() -> None:
    noted: dict[str, Any] = {"f:metadata": {"f:annotations": {".": {}, f"f:{LAST_APPLIED}": {}}}}
    pipeline = entry("pipeline", "Update", fieldsV1=noted)
    after = migrate_from_kubectl([pipeline, KUBECTL], to="mine")
    merged = {**noted, **KUBECTL["fieldsV1"]}
    assert after == [entry("mine", "Apply", fieldsV1=merged)]


def test_fields_of_another_version_are_given_up() -> None:
    old = {**KUBECTL, "apiVersion": "resile.dev/v1alpha0"}
    own = entry("mine", "Apply", "roles")
    assert migrate_from_kubectl([own, old], to="mine") == [own]
