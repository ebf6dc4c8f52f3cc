"""The manifest: the file that makes a checkpoint exist.

It is written last and names every part with its size and checksum. A folder without one holds the
remains of an unfinished write. The manifest has a checksum of its own, so that a flipped bit in a
number or a name is detected as well as one that makes it unreadable.
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
from resile.group_name import MAIN_GROUP

__all__ = ["FORMAT", "Manifest", "PartEntry", "decode_manifest", "encode_manifest", "format_for"]

FORMAT = 2
"""Adding or removing a field needs a new format: the checksum covers all fields."""

_WITH_GROUP = 3
"""The format for groups other than the main one. The main group's has not changed, so that an older
Resile can read it."""

_WITHOUT_CHECKSUM = 1
"""The previous format, which had no checksum of its own."""

Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class PartEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A part as stored: file name, size and checksum."""

    name: str
    """The file name without its ending: the part's name and the attempt that wrote it."""

    kind: PartKind
    index: Count
    count: Count
    size: Count
    checksum: str
    """XXH3, 128 bits, over all bytes, in hexadecimal."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """A complete checkpoint."""

    format: int
    step: Count
    world: Count
    created: Annotated[float, Meta(ge=0, le=253_402_300_799)]
    """Unix time; up to the year 9999, the limit of everything that formats dates."""

    job: str = ""
    round: Count = 0
    parts: tuple[PartEntry, ...]
    checksum: str = ""
    """XXH3, 128 bits, over all other fields, in hexadecimal; see :func:`_checksum`."""

    written_group: str | msgspec.UnsetType = msgspec.field(name="group", default=msgspec.UNSET)
    """Absent for the main group."""

    @property
    def group(self) -> str:
        """The group that the state belongs to."""
        return MAIN_GROUP if self.written_group is msgspec.UNSET else self.written_group

    @property
    def size(self) -> int:
        """Total size of all parts in bytes."""
        return sum(part.size for part in self.parts)


def format_for(group: str) -> int:
    """The manifest format for a group."""
    return _WITH_GROUP if group else FORMAT


def encode_manifest(manifest: Manifest) -> bytes:
    """Encode a manifest as indented JSON, with its checksum."""
    checked = msgspec.structs.replace(manifest, checksum=_checksum(manifest))
    return msgspec.json.format(msgspec.json.encode(checked), indent=1) + b"\n"


def decode_manifest(data: bytes, *, source: str) -> Manifest:
    """Decode a manifest; raises :class:`PartDamaged` with the reason."""
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
        raise PartDamaged(f"{source} was changed after it was written (wrong checksum)")
    for part in manifest.parts:
        # A name that points outside the folder must not be followed.
        if not is_ours(part.name + PART_ENDING):
            raise PartDamaged(f"{source} has an invalid part name: {part.name!r}")
    return manifest


def _checksum(manifest: Manifest) -> str:
    """The checksum over all fields in order, without white space, with the checksum field empty."""
    bare = msgspec.structs.replace(manifest, checksum="")
    return xxhash.xxh3_128(msgspec.json.encode(bare)).hexdigest()
