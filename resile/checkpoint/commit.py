"""The commit protocol: every part, then its entry, then the manifest.

    every writer                                 the writer that publishes
    ------------                                 -------------------------
    1. step-000000120/PART.safetensors   write, sync
    2. step-000000120/PART.json          write, sync  -->  3. waits for the .json of all parts
                                                           4. step-000000120/manifest.json

A ``.json`` (a :class:`~resile.checkpoint.manifest.PartEntry`) says that its part is complete and
durable; the manifest says that all are. Writers need no network between them: they coordinate
through storage. Each file appears complete or not at all, so a kill between any two operations
leaves either no checkpoint of this step or all of it.

The same step may be written more than once: a run that died while writing restarts and reaches the
step again, with other bytes. So each try to write a checkpoint has a name, the *attempt*, which is
in the name of every part: PART is ``rank-00003-of-00008.ATTEMPT``. Publishing considers only the
parts of its own attempt, a writer left over from an older attempt cannot overwrite a newer one's
parts, and an existing checkpoint stays complete until the new manifest replaces it. All writers of
one checkpoint must use the same attempt, and no other run may ever use it: the round's number alone
is not enough, since the next run counts from one again. :func:`new_attempt` creates one; workers
agree on it over the round's store.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Generator
from contextlib import closing, suppress

import msgspec
import xxhash

from resile.checkpoint.errors import (
    NotAStorageFile,
    NotOnStorage,
    PartDamaged,
    PartsMissing,
    StorageError,
    StorageRefused,
)
from resile.checkpoint.fence import RoundClaim, StorageFence, check, read_fence
from resile.checkpoint.fence import claim as make_claim
from resile.checkpoint.manifest import Manifest, PartEntry, encode_manifest, format_for
from resile.checkpoint.names import ENTRY_ENDING, MANIFEST, PART_ENDING, is_attempt, step_folder
from resile.checkpoint.part import PartKind, part_name, read_header
from resile.checkpoint.storage.base import Storage, read_whole
from resile.checkpoint.storage.retry import RetryPolicy, retry
from resile.decoding import DecodeError, decode_json
from resile.group_name import MAIN_GROUP

__all__ = ["new_attempt", "publish", "write_part"]

log = logging.getLogger("resile.checkpoint")

PIECE = 8 << 20
"""Bytes hashed and written at a time: large enough for a disk, small enough to stay in a CPU's
cache between the two."""

SHOWN = 5
"""Missing parts that an error names; the rest are counted."""


def new_attempt(round: int = 0) -> str:
    """Create a unique name for a try to write a checkpoint."""
    return f"r{round}-{secrets.token_hex(4)}"


def write_part(
    storage: Storage,
    part: memoryview,
    *,
    attempt: str,
    policy: RetryPolicy | None = None,
    tell: Callable[[str], None] = log.warning,
) -> PartEntry:
    """Write one part and then the entry that marks it as complete; both are durable on return.

    ``part`` may be followed by other bytes (a slot is larger than its part): its header says where
    it ends, and which group's folder it goes to. Raises :class:`StorageError` when storage did
    not recover before the timeout, and at once if it is full or access is denied.
    """
    policy = policy or RetryPolicy()
    _check_attempt(attempt)
    header, layout = read_header(part, source="the snapshot in memory")
    if len(part) < layout.size:
        raise PartDamaged(
            f"the snapshot in memory of {header.name} is truncated: "
            f"{len(part)} bytes of {layout.size}"
        )
    name = f"{header.name}.{attempt}"
    path = f"{step_folder(header.step, header.group)}/{name}"
    with part[: layout.size] as exact:
        checksum = retry(
            lambda: _write_hashed(storage, path + PART_ENDING, exact), policy, tell=tell
        )
    entry = PartEntry(
        name=name,
        kind=header.kind,
        index=header.index,
        count=header.count,
        size=layout.size,
        checksum=checksum,
    )
    text = memoryview(msgspec.json.encode(entry))
    retry(lambda: storage.write(path + ENTRY_ENDING, [text]), policy, tell=tell)
    return entry


def _write_hashed(storage: Storage, path: str, part: memoryview) -> str:
    """Write a part's bytes; returns their checksum."""
    checksum = xxhash.xxh3_128()
    with closing(_pieces(part, checksum)) as pieces:
        storage.write(path, pieces)
    return checksum.hexdigest()


def _pieces(part: memoryview, checksum: xxhash.xxh3_128) -> Generator[memoryview, None, None]:
    # Views are released even when an error keeps the frames that hold them: otherwise the owner of
    # the memory could not unmap it.
    for begin in range(0, len(part), PIECE):
        with part[begin : begin + PIECE] as piece:
            checksum.update(piece)
            yield piece


def publish(
    storage: Storage,
    *,
    step: int,
    world: int,
    replicas: int,
    attempt: str,
    group: str = MAIN_GROUP,
    job: str = "",
    round: int = 0,
    claim: RoundClaim | None = None,
    policy: RetryPolicy | None = None,
    tell: Callable[[str], None] = log.warning,
    now: Callable[[], float] = time.time,
) -> Manifest:
    """Wait until all parts of this attempt are written, then write the manifest.

    ``world``: the number of rank parts; ``replicas``: the number of replica parts; ``group``: the
    group they belong to. One writer calls this, after its own parts. ``claim``: the round's claim,
    which is written unless it already was. Raises :class:`PartsMissing` on timeout,
    :class:`Superseded` if another round of the group continued from an earlier step.
    """
    policy = policy or RetryPolicy()
    _check_attempt(attempt)

    fence = StorageFence()

    def look() -> None:
        nonlocal fence
        fence = read_fence(storage, group, known=fence, tell=tell)
        check(fence, attempt=attempt, step=step, storage=storage)

    if claim is not None:
        fence = retry(lambda: make_claim(storage, claim, tell=tell), policy, tell=tell)
    retry(look, policy, tell=tell)  # before waiting for parts that nobody will write
    wanted = [f"{part_name(PartKind.RANK, k, world)}.{attempt}" for k in range(world)]
    wanted += [f"{part_name(PartKind.REPLICA, k, replicas)}.{attempt}" for k in range(replicas)]
    folder = step_folder(step, group)
    entries = _gather(storage, folder, wanted, policy=policy, tell=tell)
    manifest = Manifest(
        format=format_for(group),
        step=step,
        world=world,
        created=now(),
        job=job,
        round=round,
        parts=tuple(entries[name] for name in wanted),
        written_group=group or msgspec.UNSET,
    )
    text = memoryview(encode_manifest(manifest))
    path = f"{folder}/{MANIFEST}"
    retry(lambda: storage.write(path, [text], just_before=look), policy, tell=tell)
    with suppress(StorageError):
        look()  # a claim made meanwhile: restores will skip this checkpoint
    return manifest


def _gather(
    storage: Storage,
    folder: str,
    wanted: list[str],
    *,
    policy: RetryPolicy,
    tell: Callable[[str], None],
) -> dict[str, PartEntry]:
    """Wait for the entries of all parts, and return them by name."""
    entries: dict[str, PartEntry] = {}
    trouble: StorageError | None = None
    for _ in policy.tries():
        missing = [name for name in wanted if name not in entries]
        try:
            for name, size in _complete(storage, folder, missing).items():
                entry = _read_entry(storage, f"{folder}/{name}{ENTRY_ENDING}")
                if entry is not None and (entry.name, entry.size) == (name, size):
                    entries[name] = entry
            trouble = None
        except StorageRefused:
            raise
        except StorageError as error:
            if trouble is None:
                tell(f"{error}; still waiting for {len(missing)} parts")
            trouble = error
        if len(entries) == len(wanted):
            return entries
    if trouble is not None:
        raise trouble
    raise PartsMissing(_what_is_missing(storage, folder, wanted, set(entries)))


def _complete(storage: Storage, folder: str, names: list[str]) -> dict[str, int]:
    """The parts of which both files exist, with the part's size."""
    if not names:
        return {}
    try:
        sizes = {item.name: item.size for item in storage.list(folder)}
    except NotOnStorage:
        return {}
    return {
        name: sizes[name + PART_ENDING]
        for name in names
        if name + PART_ENDING in sizes and name + ENTRY_ENDING in sizes
    }


def _read_entry(storage: Storage, path: str) -> PartEntry | None:
    """Read an entry; None if it vanished or is incomplete: it may still be rewritten."""
    try:
        return decode_json(read_whole(storage, path), PartEntry)
    except (NotOnStorage, NotAStorageFile, PartDamaged, DecodeError):
        return None


def _what_is_missing(storage: Storage, folder: str, wanted: list[str], there: set[str]) -> str:
    missing = [name.partition(".")[0] for name in wanted if name not in there]
    shown = ", ".join(missing[:SHOWN])
    more = f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
    return (
        f"the checkpoint in {storage.address}/{folder} is not complete: {len(missing)} of "
        f"{len(wanted)} parts were not written in time: {shown}{more}. "
        "Do all nodes see the same folder, and did their writers report errors?"
    )


def _check_attempt(attempt: str) -> None:
    if not is_attempt(attempt):
        raise ValueError(f"an attempt's name is letters, digits, '-' and '_', not {attempt!r}")
