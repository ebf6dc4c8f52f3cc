"""Any corruption of a ledger of complete epochs is found by the check."""

from __future__ import annotations

import random
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from resile.decoding import DecodeError
from resile.ledger import Ledger, LedgerError, check, read_ledger
from resile.ledger.lines import Line, TrainedLine, decode_line, encode_line

EPOCHS = 2


def write(folder: Path, *, length: int, world: int, batch: int, crash: int, seed: int) -> None:
    """Write two epochs; after ``crash`` steps another round resumes one step before."""
    chance = random.Random(seed)
    orders = [chance.sample(range(length), length) for _ in range(EPOCHS)]
    steps = [
        (epoch, order[start : start + batch])
        for epoch, order in enumerate(orders)
        for start in range(0, length, batch)
    ]
    crash = min(crash, len(steps))
    _round(folder, "1", steps[:crash], first=1, world=world, length=length)
    _round(folder, "2", steps[crash - 1 :], first=crash, world=world, length=length)


def _round(
    folder: Path,
    name: str,
    steps: list[tuple[int, list[int]]],
    *,
    first: int,
    world: int,
    length: int,
) -> None:
    for rank in range(world):
        ledger = Ledger(folder, length=length, rank=rank, world=world, round=name)
        if first > 1:
            ledger.resumed(first - 1, of="1")
        for step, (epoch, samples) in enumerate(steps, start=first):
            ledger.record(step, epoch, samples[rank::world], total=len(samples))
        ledger.close()


def counting(folder: Path, *, crash: int) -> list[tuple[Path, int, TrainedLine]]:
    """Every line that counts: its file and number."""
    found = []
    for path in sorted(folder.iterdir()):
        lines = [decode_line(line) for line in path.read_bytes().splitlines()]
        resumed = isinstance(lines[0], TrainedLine) or lines[0].round == "2"
        for number, line in enumerate(lines):
            if isinstance(line, TrainedLine) and len(line) and (resumed or line.step < crash):
                found.append((path, number, line))
    return found


def corrupted(line: TrainedLine, kind: str, chance: random.Random, *, length: int) -> list[Line]:
    """The lines that replace a line after the corruption."""
    ids = list(line.indices())
    at = chance.randrange(len(ids))
    if kind == "gone":
        return []
    if kind == "twice":
        return [line, line]
    if kind == "one less":
        ids.pop(at)
    elif kind == "one more":
        ids.append(chance.randrange(length))
    elif kind == "another":
        ids[at] = chance.choice([other for other in range(-1, length + 1) if other != ids[at]])
    return [msgspec.structs.replace(line, ids=ids, ranges=[])]


kinds = st.sampled_from(["gone", "twice", "one less", "one more", "another"])


@given(
    length=st.integers(2, 40),
    world=st.integers(1, 4),
    batch=st.integers(1, 8),
    crash=st.integers(1, 10),
    seed=st.integers(0, 1000),
    kind=kinds,
)
@settings(deadline=None)
def test_any_change_of_a_line_is_found(
    length: int, world: int, batch: int, crash: int, seed: int, kind: str
) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, length=length, world=world, batch=batch, crash=crash, seed=seed)
        assert check(read_ledger(folder), epochs=EPOCHS).sound
        steps = -(-length // batch) * EPOCHS
        chance = random.Random(seed)
        path, number, line = chance.choice(counting(folder, crash=min(crash, steps)))
        lines = path.read_bytes().splitlines(keepends=True)
        lines[number : number + 1] = [
            encode_line(one) for one in corrupted(line, kind, chance, length=length)
        ]
        path.write_bytes(b"".join(lines))
        assert not check(read_ledger(folder), epochs=EPOCHS).sound


@given(st.integers(2, 30), st.integers(2, 4), st.integers(0, 1000), st.integers(0, 7))
@settings(deadline=None)
def test_a_workers_file_that_is_gone_is_found(
    length: int, world: int, seed: int, which: int
) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, length=length, world=world, batch=world, crash=3, seed=seed)
        path, _, _ = counting(folder, crash=3)[which % len(counting(folder, crash=3))]
        path.unlink()
        assert not _sound(folder)


@given(st.binary(min_size=1, max_size=30), st.integers(0, 500))
@settings(deadline=None)
def test_garbage_is_never_taken_for_a_sound_ledger(garbage: bytes, where: int) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, length=12, world=2, batch=4, crash=3, seed=0)
        path = sorted(folder.iterdir())[-1]
        content = path.read_bytes()
        at = where % len(content)
        changed = content[:at] + garbage + content[at + len(garbage) :]
        before = [decode_line(line) for line in content.splitlines()]
        path.write_bytes(changed)
        try:
            after = [decode_line(line) for line in changed.splitlines()]
        except DecodeError:
            assert not _sound(folder)
        else:
            told = [one for one in after if isinstance(one, TrainedLine)]
            assume(told != [one for one in before if isinstance(one, TrainedLine)])
            assert not _sound(folder)


def _sound(folder: Path) -> bool:
    try:
        return check(read_ledger(folder), epochs=EPOCHS).sound
    except LedgerError:
        return False
