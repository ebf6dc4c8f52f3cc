"""What is known of all objects of one kind, and which of two stories about one is the newer.

Three things write here, and none waits for another: a list, a watch, and the answers to our own
writes, which are taken in at once so that the next decision knows of them. A story that is older
than what is known must not undo it: a watch runs late, and a list that was asked for before a pod
was created does not have that pod.

Stories are ordered by their resourceVersion (``versions``). Where nothing can be said about their
age, what comes last counts.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

from resile.platform.kubernetes.kinds import Key, KubeObject, key_of
from resile.platform.kubernetes.versions import is_older

__all__ = ["Changed", "Index", "Kept", "Store"]

Changed = Callable[[KubeObject | None, KubeObject | None], None]
"""Told of each change: the object before it and after it, None where it was not or is no more."""

Index = Callable[[KubeObject], Hashable | None]
"""Under what an object is to be found besides its name; None for not at all."""


Kept = Callable[[KubeObject], KubeObject]
"""What is remembered of an object."""


def _without_managed_fields(obj: KubeObject) -> KubeObject:
    """Who wrote which field is often longer than the object, and nobody here asks for it."""
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    return {**obj, "metadata": metadata}


class Store(Mapping[Key, KubeObject]):
    """The latest of each object. They are shared: whoever reads one must not change it."""

    def __init__(
        self,
        *,
        changed: Changed,
        index: Index | None = None,
        kept: Kept | None = None,
    ) -> None:
        self._changed = changed
        self._index = index
        self._kept = kept or _without_managed_fields
        self._objects: dict[Key, KubeObject] = {}
        self._found: dict[Hashable, dict[Key, KubeObject]] = {}
        self.resource_version = ""
        """How far the cluster's history has been read."""

    def __getitem__(self, key: Key) -> KubeObject:
        return self._objects[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._objects)

    def __len__(self) -> int:
        return len(self._objects)

    def by_index(self, found: Hashable) -> tuple[KubeObject, ...]:
        """All objects that the index function gives this value for."""
        return tuple(self._found.get(found, {}).values())

    def replace(self, items: Sequence[KubeObject], resource_version: str) -> None:
        """All there was at ``resource_version``; only what is known from later is kept besides."""
        listed = {key_of(item) for item in items}
        # Never seen but after etcd was restored from a backup: then the list is all there is.
        restored = is_older(resource_version, self.resource_version)
        for key, known in list(self._objects.items()):
            if restored or (key not in listed and not is_older(resource_version, _version(known))):
                self._forget(key)
        for item in items:
            self._take(item)
        self.resource_version = resource_version

    def saw(self, obj: KubeObject) -> None:
        """A watch told that the object is so."""
        self._take(obj)
        self.resource_version = _version(obj)

    def saw_end(self, obj: KubeObject) -> None:
        """A watch told that the object is gone; ``obj`` is the last that was known of it."""
        known = self._objects.get(key_of(obj))
        if known is not None and not is_older(_version(obj), _version(known)):
            self._forget(key_of(obj))
        self.resource_version = _version(obj)

    def wrote(self, obj: KubeObject) -> None:
        """The API server's answer to a write of ours.

        One that is not known, though the history was read past it, has been deleted meanwhile. Its
        end is told, because nobody may have been told that it was there.
        """
        if key_of(obj) in self._objects or not is_older(_version(obj), self.resource_version):
            self._take(obj)
        else:
            self._changed(self._kept(obj), None)

    def _take(self, obj: KubeObject) -> None:
        key = key_of(obj)
        known = self._objects.get(key)
        if known is not None and not _changes(_version(known), _version(obj)):
            return
        self._unfind(key, known)
        obj = self._objects[key] = self._kept(obj)
        if self._index and (found := self._index(obj)) is not None:
            self._found.setdefault(found, {})[key] = obj
        self._changed(known, obj)

    def _forget(self, key: Key) -> None:
        known = self._objects.pop(key)
        self._unfind(key, known)
        self._changed(known, None)

    def _unfind(self, key: Key, known: KubeObject | None) -> None:
        if self._index is None or known is None:
            return
        found = self._index(known)
        among = self._found.get(found)
        if among is not None:
            among.pop(key, None)
            if not among:
                del self._found[found]


def _version(obj: KubeObject) -> str:
    version: str = obj["metadata"]["resourceVersion"]
    return version


def _changes(known: str, told: str) -> bool:
    return told != known and not is_older(told, known)
