"""The manifest: the one file that makes a checkpoint exist.

It is written last and names every part with its size and checksum. A folder without one holds the
remains of a write that did not come to its end. It carries a checksum of its own, so that a bit
that flips in a number or a name is noticed as well as one that makes it unreadable.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import xxhash
from msgspec import Meta

from resile.checkpoint.errors import PartDamaged
from resile.checkpoint.names import PART_ENDING, is_ours
from resile.checkpoint.part import PartKind
from resile.decoding import DecodeError, decode_json
from resile.groupname import MAIN_GROUP

__all__ = ["FORMAT", "Manifest", "PartEntry", "decode_manifest", "encode_manifest", "format_for"]

FORMAT = 2
"""A field more or less is another format: the checksum is one of all fields."""

_WITH_GROUP = 3
"""The format of a group other than the main one. The main group's has not changed, so that an older
Resile reads it."""

_WITHOUT_CHECKSUM = 1
"""The format before this one, which had no checksum of its own."""

Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class PartEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One part as it lies on storage."""

    name: str
    """Its file's name, without the ending: what it is, and the attempt that wrote it."""

    kind: PartKind
    index: Count
    count: Count
    size: Count
    checksum: str
    """XXH3 of 128 bits over all bytes, in hexadecimal."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """One complete checkpoint."""

    format: int
    step: Count
    world: Count
    created: Annotated[float, Meta(ge=0, le=253_402_300_799)]
    """Unix time; up to the year 9999, as all that shows dates."""

    job: str = ""
    round: Count = 0
    parts: tuple[PartEntry, ...]
    checksum: str = ""
    """XXH3 of 128 bits over all other fields, in hexadecimal; see :func:`_checksum`."""

    written_group: str | msgspec.UnsetType = msgspec.field(name="group", default=msgspec.UNSET)
    """Absent for the main group."""

    @property
    def group(self) -> str:
        """The group whose state it is."""
        return MAIN_GROUP if self.written_group is msgspec.UNSET else self.written_group

    @property
    def size(self) -> int:
        """Bytes of all parts."""
        return sum(part.size for part in self.parts)


def format_for(group: str) -> int:
    """The format in which a group's manifests are written."""
    return _WITH_GROUP if group else FORMAT


def encode_manifest(manifest: Manifest) -> bytes:
    """As it is written: for programs, but a person can read it."""
    checked = msgspec.structs.replace(manifest, checksum=_checksum(manifest))
    return msgspec.json.format(msgspec.json.encode(checked), indent=1) + b"\n"


def decode_manifest(data: bytes, *, source: str) -> Manifest:
    """Read one; raises :class:`PartDamaged` with what is wrong."""
    try:
        manifest = decode_json(data, Manifest)
    except DecodeError as error:
        raise PartDamaged(f"{source} is not a manifest: {error}") from None
    if manifest.format not in (_WITHOUT_CHECKSUM, FORMAT, _WITH_GROUP):
        raise PartDamaged(
            f"{source} has format {manifest.format}; this version of Resile reads "
            f"{_WITHOUT_CHECKSUM} to {_WITH_GROUP}"
        )
    if manifest.format != _WITHOUT_CHECKSUM and manifest.checksum != _checksum(manifest):
        raise PartDamaged(f"{source} is not as it was written (checksum)")
    for part in manifest.parts:
        # A name that leads out of the folder must not be followed.
        if not is_ours(part.name + PART_ENDING):
            raise PartDamaged(f"{source} names a part that cannot be one: {part.name!r}")
    return manifest


def _checksum(manifest: Manifest) -> str:
    """Over the fields in their order, without white space, with the checksum itself empty."""
    bare = msgspec.structs.replace(manifest, checksum="")
    return xxhash.xxh3_128(msgspec.json.encode(bare)).hexdigest()
