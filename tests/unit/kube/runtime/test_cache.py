"""The store: the newer of two versions counts, whichever comes last."""

from __future__ import annotations

import pytest

from resile.kube.resources import KubeObject
from resile.kube.runtime.cache import ObjectCache


class Seen:
    """A store, and every change that it reported: name, version before, version after."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, str | None, str | None]] = []
        self.store = ObjectCache(changed=self._changed, index=_job)

    def _changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        name = (new or old or {})["metadata"]["name"]
        self.changes.append((name, old and _version(old), new and _version(new)))


@pytest.fixture
def seen() -> Seen:
    return Seen()


def obj(name: str, version: int | str, job: str | None = None) -> KubeObject:
    labels = {"job": job} if job else {}
    metadata = {"namespace": "n", "name": name, "resourceVersion": str(version), "labels": labels}
    return {"metadata": metadata}


def _job(found: KubeObject) -> str | None:
    job: str | None = found["metadata"]["labels"].get("job")
    return job


def _version(found: KubeObject) -> str:
    version: str = found["metadata"]["resourceVersion"]
    return version


def test_a_list_tells_what_is_new_what_changed_and_what_is_gone(seen: Seen) -> None:
    seen.store.replace([obj("a", 1), obj("b", 2)], "3")
    seen.changes.clear()
    seen.store.replace([obj("b", 4), obj("c", 5)], "6")
    assert seen.changes == [("a", "1", None), ("b", "2", "4"), ("c", None, "5")]
    assert set(seen.store) == {("n", "b"), ("n", "c")}
    assert seen.store.resource_version == "6"


def test_the_same_story_told_again_is_no_change(seen: Seen) -> None:
    seen.store.update(obj("a", 1))
    seen.store.update(obj("a", 1))
    seen.store.replace([obj("a", 1)], "5")
    assert seen.changes == [("a", None, "1")]


def test_a_late_event_does_not_undo_our_own_write(seen: Seen) -> None:
    seen.store.replace([obj("a", 9)], "9")
    seen.store.update_from_write(obj("a", 11))
    seen.store.update(obj("a", 10))
    assert _version(seen.store["n", "a"]) == "11"
    seen.store.update(obj("a", 12))
    assert _version(seen.store["n", "a"]) == "12"


def test_versions_are_compared_as_numbers(seen: Seen) -> None:
    seen.store.update(obj("a", 99))
    seen.store.update(obj("a", 100))
    assert _version(seen.store["n", "a"]) == "100"


def test_a_list_asked_for_before_we_created_something_does_not_remove_it(seen: Seen) -> None:
    seen.store.replace([], "5")
    seen.store.update_from_write(obj("a", 8))
    seen.store.replace([], "7")
    assert ("n", "a") in seen.store
    seen.store.replace([], "9")
    assert ("n", "a") not in seen.store


def test_an_answer_that_comes_after_the_objects_end_does_not_bring_it_back(seen: Seen) -> None:
    seen.store.replace([obj("a", 1)], "1")
    seen.store.delete(obj("a", 6))
    seen.store.update_from_write(obj("a", 5))
    assert len(seen.store) == 0
    assert seen.changes[1:] == [("a", "1", None), ("a", "5", None)]


def test_what_was_made_and_deleted_between_two_lists_is_told_to_have_ended(seen: Seen) -> None:
    seen.store.replace([], "9")
    seen.store.update_from_write(obj("a", 5))
    assert len(seen.store) == 0
    assert seen.changes == [("a", "5", None)]


def test_the_end_of_an_object_does_not_end_its_successor(seen: Seen) -> None:
    seen.store.update(obj("a", 1))
    seen.store.update_from_write(obj("a", 9))
    seen.store.delete(obj("a", 8))
    assert _version(seen.store["n", "a"]) == "9"


def test_versions_that_are_no_numbers_are_taken_as_they_come(seen: Seen) -> None:
    seen.store.update(obj("a", "x"))
    seen.store.update(obj("a", "y"))
    assert _version(seen.store["n", "a"]) == "y"
    seen.store.update_from_write(obj("b", "z"))
    seen.store.replace([obj("b", "z")], "later")
    assert set(seen.store) == {("n", "b")}


def test_a_cluster_restored_from_a_backup_is_believed(seen: Seen) -> None:
    seen.store.replace([obj("a", 90), obj("b", 95)], "100")
    seen.store.replace([obj("a", 40)], "50")
    assert seen.store["n", "a"] == obj("a", 40)
    assert ("n", "b") not in seen.store


def test_objects_are_found_by_their_index_as_it_is_now(seen: Seen) -> None:
    seen.store.replace([obj("a", 1, "j"), obj("b", 2, "j"), obj("c", 3)], "3")
    assert [found["metadata"]["name"] for found in seen.store.by_index("j")] == ["a", "b"]
    seen.store.update(obj("a", 4, "k"))
    seen.store.delete(obj("b", 5, "j"))
    assert seen.store.by_index("j") == ()
    assert seen.store.by_index("k") == (obj("a", 4, "k"),)
    seen.store.update(obj("a", 6))
    assert seen.store.by_index("k") == ()
