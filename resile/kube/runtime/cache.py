"""The informer cache: the latest known version of all objects of one kind.

Three sources update it independently: a list, a watch, and the responses to our own writes, which
are applied at once so that the next decision sees them. An older version must not replace a newer
one: a watch lags behind, and a list that was requested before a pod was created lacks that pod.

Versions are ordered by resourceVersion (``versions``). Where two cannot be compared, the last one
to arrive is used.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

from resile.kube.resources import Key, KubeObject, is_older, key_of

__all__ = ["Changed", "Index", "Trim", "ObjectCache"]

Changed = Callable[[KubeObject | None, KubeObject | None], None]
"""Called for each change with the object before and after; None if it was created or deleted."""

Index = Callable[[KubeObject], Hashable | None]
"""The value under which an object is indexed besides its name; None for no entry."""

Trim = Callable[[KubeObject], KubeObject]
"""Returns the part of an object that is cached."""


def _without_managed_fields(obj: KubeObject) -> KubeObject:
    """Drop the managed fields: they are often longer than the object, and never used here."""
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    return {**obj, "metadata": metadata}


class ObjectCache(Mapping[Key, KubeObject]):
    """The latest version of each object. Objects are shared: readers must not modify them."""

    def __init__(
        self,
        *,
        changed: Changed,
        index: Index | None = None,
        kept: Trim | None = None,
    ) -> None:
        self._changed = changed
        self._index = index
        self._kept = kept or _without_managed_fields
        self._objects: dict[Key, KubeObject] = {}
        self._found: dict[Hashable, dict[Key, KubeObject]] = {}
        self.resource_version = ""
        """The resourceVersion up to which the cluster's history has been read."""

    def __getitem__(self, key: Key) -> KubeObject:
        return self._objects[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._objects)

    def __len__(self) -> int:
        return len(self._objects)

    def by_index(self, found: Hashable) -> tuple[KubeObject, ...]:
        """Return all objects for which the index function returns this value."""
        return tuple(self._found.get(found, {}).values())

    def replace(self, items: Sequence[KubeObject], resource_version: str) -> None:
        """Replace the content by a list at ``resource_version``; newer objects are kept."""
        listed = {key_of(item) for item in items}
        # Only after etcd was restored from a backup: then the list is authoritative.
        restored = is_older(resource_version, self.resource_version)
        for key, known in list(self._objects.items()):
            if restored or (key not in listed and not is_older(resource_version, _version(known))):
                self._forget(key)
        for item in items:
            self._take(item)
        self.resource_version = resource_version

    def update(self, obj: KubeObject) -> None:
        """Apply an ADDED or MODIFIED event of a watch."""
        self._take(obj)
        self.resource_version = _version(obj)

    def delete(self, obj: KubeObject) -> None:
        """Apply a DELETED event of a watch; ``obj`` is the object's last state."""
        known = self._objects.get(key_of(obj))
        if known is not None and not is_older(_version(obj), _version(known)):
            self._forget(key_of(obj))
        self.resource_version = _version(obj)

    def update_from_write(self, obj: KubeObject) -> None:
        """Apply the API server's response to our own write.

        An object that is not in the cache, although the history was read past it, was deleted in
        the meantime. Its deletion is reported, because its creation may never have been.
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


def _changes(known: str, incoming: str) -> bool:
    return incoming != known and not is_older(incoming, known)
