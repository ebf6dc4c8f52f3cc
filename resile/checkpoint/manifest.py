"""The manifest: the one file that makes a checkpoint exist.

It is written last and names every part with its size and checksum. A folder without one holds the
remains of a write that did not come to its end.
"""

from __future__ import annotations

import msgspec

from resile.checkpoint.errors import PartDamaged
from resile.checkpoint.names import PART_ENDING, is_ours
from resile.checkpoint.part import PartKind
from resile.decoding import DecodeError, decode_json

__all__ = ["FORMAT", "Manifest", "PartEntry", "decode_manifest", "encode_manifest"]

FORMAT = 1


class PartEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One part as it lies on storage."""

    name: str
    """Its file's name, without the ending: what it is, and the attempt that wrote it."""

    kind: PartKind
    index: int
    count: int
    size: int
    checksum: str
    """XXH3 of 128 bits over all bytes, in hexadecimal."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """One complete checkpoint."""

    format: int = FORMAT
    step: int
    world: int
    created: float
    """Unix time."""

    job: str = ""
    round: int = 0
    parts: tuple[PartEntry, ...]

    @property
    def size(self) -> int:
        """Bytes of all parts."""
        return sum(part.size for part in self.parts)


def encode_manifest(manifest: Manifest) -> bytes:
    """As it is written: for programs, but a person can read it."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"


def decode_manifest(data: bytes, *, source: str) -> Manifest:
    """Read one; raises :class:`PartDamaged` with what is wrong."""
    try:
        manifest = decode_json(data, Manifest)
    except DecodeError as error:
        raise PartDamaged(f"{source} is not a manifest: {error}") from None
    if manifest.format != FORMAT:
        raise PartDamaged(
            f"{source} has format {manifest.format}; this version of Resile reads {FORMAT}"
        )
    for part in manifest.parts:
        # A name that leads out of the folder must not be followed.
        if not is_ours(part.name + PART_ENDING):
            raise PartDamaged(f"{source} names a part that cannot be one: {part.name!r}")
    return manifest
