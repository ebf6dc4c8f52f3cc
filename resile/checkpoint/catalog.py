"""The catalog of one group's checkpoints on a storage: find them, check them, open their parts.

A checkpoint is found by its manifest. It is damaged if a part is missing, cannot be read, or has
the wrong size or checksum; nothing is ever repaired or removed here. A manifest of another group,
copied here by somebody, is skipped.

Checking sizes costs one list of a folder; checking checksums reads every byte. The checksums in the
manifest are authoritative.

Local parts are mapped, so that restoring copies each byte once; from remote ones only the requested
ranges are fetched.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

import xxhash

from resile.checkpoint.errors import (
    NoCheckpoint,
    NotAStorageFile,
    NotOnStorage,
    PartDamaged,
    StorageError,
    StorageRefused,
)
from resile.checkpoint.fence import StorageFence, read_fence
from resile.checkpoint.manifest import Manifest, PartEntry, decode_manifest
from resile.checkpoint.names import (
    ENTRY_ENDING,
    MANIFEST,
    PART_ENDING,
    group_folder,
    group_of,
    step_folder,
    step_of,
)
from resile.checkpoint.part import LARGEST_HEADER, PartHeader, PartLayout, read_header
from resile.checkpoint.storage.base import Storage, StoredFile, read_whole
from resile.group_name import MAIN_GROUP, describe_group

__all__ = [
    "Checkpoint",
    "CheckpointCatalog",
    "Depth",
    "StoredPart",
    "groups_on",
]


log = logging.getLogger("resile.checkpoint")

PIECE = 8 << 20
"""Bytes read and hashed at a time."""


_ENDINGS = (PART_ENDING, ENTRY_ENDING)


class Depth(str, Enum):
    """How thoroughly a checkpoint is checked for damage."""

    SIZES = "sizes"
    CHECKSUMS = "checksums"


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that exists: its manifest was read."""

    folder: str
    manifest: Manifest
    digest: str
    """Digest of the manifest's bytes; tells two checkpoints of the same step apart."""

    @property
    def step(self) -> int:
        """The number of steps after which it was taken."""
        return self.manifest.step

    @property
    def attempt(self) -> str:
        """The attempt that wrote it."""
        return self.manifest.parts[0].name.partition(".")[2] if self.manifest.parts else ""

    @property
    def names(self) -> frozenset[str]:
        """The names of all its files."""
        files = (part.name + ending for part in self.manifest.parts for ending in _ENDINGS)
        return frozenset((MANIFEST, *files))

    def path(self, part: PartEntry) -> str:
        """The path of a part on its storage."""
        return f"{self.folder}/{part.name}{PART_ENDING}"


def groups_on(storage: Storage) -> list[str]:
    """The groups with checkpoints on a storage, the main one first; raises NotOnStorage."""
    folders = [item.name for item in storage.list() if item.is_folder]
    others = sorted(group for name in folders if (group := group_of(name)) is not None)
    main = any(step_of(name) is not None for name in folders)
    return [MAIN_GROUP, *others] if main else others


class CheckpointCatalog:
    """All checkpoints of a group. Nothing is cached: every call reads the storage."""

    def __init__(self, storage: Storage, group: str = MAIN_GROUP) -> None:
        self.storage = storage
        self.group = group

    @property
    def address(self) -> str:
        """The address of the group's folder, for messages."""
        return "/".join(filter(None, (self.storage.address, group_folder(self.group))))

    def steps(self) -> list[int]:
        """The steps that have a folder, newest first, complete or not."""
        items = self.storage.list(group_folder(self.group))
        found = (step_of(item.name) for item in items if item.is_folder)
        return sorted((step for step in found if step is not None), reverse=True)

    def fence(self, *, tell: Callable[[str], None] = log.warning) -> StorageFence:
        """The claims of the group's rounds."""
        return read_fence(self.storage, self.group, tell=tell)

    def at(self, step: int) -> Checkpoint:
        """The checkpoint of a step; raises NoCheckpoint, or PartDamaged for a damaged manifest."""
        folder = step_folder(step, self.group)
        try:
            data = read_whole(self.storage, f"{folder}/{MANIFEST}")
        except NotOnStorage:
            raise NoCheckpoint(f"{self.address} has no checkpoint of step {step}") from None
        except NotAStorageFile as error:
            raise PartDamaged(str(error)) from None
        source = f"{self.storage.address}/{folder}/{MANIFEST}"
        manifest = decode_manifest(data, source=source)
        if manifest.step != step:
            raise PartDamaged(f"{source} is of step {manifest.step}, not of step {step}")
        if manifest.group != self.group:
            raise PartDamaged(
                f"{source} is of {describe_group(manifest.group)}, "
                f"not of {describe_group(self.group)}"
            )
        return Checkpoint(folder, manifest, xxhash.xxh3_128(data).hexdigest())

    def checkpoints(self, *, tell: Callable[[str], None] = log.warning) -> Iterator[Checkpoint]:
        """All checkpoints, newest first; unreadable manifests are reported to ``tell``."""
        for step in self.steps():
            try:
                yield self.at(step)
            except NoCheckpoint:
                continue
            except (PartDamaged, StorageRefused) as damage:
                tell(str(damage))

    def damages(
        self,
        checkpoint: Checkpoint,
        depth: Depth = Depth.CHECKSUMS,
        *,
        progress: Callable[[int], None] = lambda _: None,
    ) -> list[str]:
        """Check a checkpoint; returns a line for each damaged part, and none if it is undamaged.

        ``progress`` is called with the number of bytes checked since the last call.
        """
        try:
            items = self.storage.list(checkpoint.folder)
        except NotOnStorage:
            return [f"{checkpoint.folder} is gone"]
        sizes = {f"{checkpoint.folder}/{item.name}": item.size for item in items}
        found: list[str] = []
        for part in checkpoint.manifest.parts:
            damage = _wrong_size(part, sizes.get(checkpoint.path(part)))
            if not damage and depth is Depth.CHECKSUMS:
                try:
                    damage = self._wrong_bytes(checkpoint, part, progress)
                except StorageError as trouble:
                    damage = f"{part.name} could not be read ({trouble})"
            if damage:
                found.append(damage)
        return found

    def _wrong_bytes(
        self, checkpoint: Checkpoint, part: PartEntry, progress: Callable[[int], None]
    ) -> str:
        checksum = xxhash.xxh3_128()
        buffer = memoryview(bytearray(min(PIECE, part.size)))
        with self.storage.open(checkpoint.path(part)) as file:
            for begin in range(0, part.size, PIECE):
                piece = buffer[: min(PIECE, part.size - begin)]
                file.read_into(begin, piece)
                checksum.update(piece)
                progress(len(piece))
        if checksum.hexdigest() == part.checksum:
            return ""
        return f"{part.name} was changed after it was written (wrong checksum)"


def _wrong_size(part: PartEntry, size: int | None) -> str:
    if size is None:
        return f"{part.name} is missing"
    return "" if size == part.size else f"{part.name} has {size} bytes instead of {part.size}"


LENGTH = 8
FIRST_READ = 256 << 10
"""Bytes. Most headers are smaller, so that one request is enough."""


class StoredPart:
    """A part on storage. ``with`` closes it; views that were read stay valid."""

    header: PartHeader
    layout: PartLayout

    def __init__(self, storage: Storage, checkpoint: Checkpoint, entry: PartEntry) -> None:
        """Read the header; raises PartDamaged if it does not match the manifest."""
        path = checkpoint.path(entry)
        self.source = f"{storage.address}/{path}"
        try:
            self._file: StoredFile = storage.open(path)
        except NotOnStorage:
            raise PartDamaged(f"{self.source} is missing") from None
        try:
            if self._file.size != entry.size:
                raise PartDamaged(
                    f"{self.source} has {self._file.size} bytes instead of {entry.size}"
                )
            self.header, self.layout = read_header(self._first_bytes(), source=self.source)
            self._check(checkpoint, entry)
        except BaseException:
            self._file.__exit__(None, None, None)
            raise

    def read(self, begin: int, end: int) -> memoryview:
        """Bytes at these offsets from the start of the part, as given by the layout."""
        return self._file.read(begin, end)

    def _first_bytes(self) -> memoryview:
        size = self._file.size
        first = self._file.read(0, min(size, FIRST_READ))
        needed = LENGTH + int.from_bytes(first[:LENGTH], "little")
        if len(first) < needed <= min(size, LENGTH + LARGEST_HEADER):
            return self._file.read(0, needed)
        return first

    def _check(self, checkpoint: Checkpoint, entry: PartEntry) -> None:
        header = self.header
        said = (header.group, header.step, header.kind, header.index, header.count)
        group = checkpoint.manifest.group
        meant = (group, checkpoint.step, entry.kind, entry.index, entry.count)
        if said != meant or self.layout.size != entry.size:
            raise PartDamaged(f"{self.source} is not the part that the manifest names")

    def __enter__(self) -> StoredPart:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.__exit__(*error)
