"""The samplers write exactly what they yielded into the ledger, through any history."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from resile.ledger import LedgerError, LedgerVerdict, check, read_ledger
from resile.train.data import DataMistake, ElasticSampler
from tests.unit.train.data.worlds import Job, RoundPlan, batched, noted, plain, rounds

EPOCHS = 2


def lived(
    folder: Path, plans: list[RoundPlan], *, length: int, size: int, fixed: bool, **settings: object
) -> LedgerVerdict:
    make = noted(batched if fixed else plain, folder)(length, size, **settings)
    job = Job(make)
    for plan in plans:
        job.run(plan, epochs=EPOCHS)
    job.finish(world=2, epochs=EPOCHS)
    return check(read_ledger(folder), epochs=EPOCHS)


@given(rounds, st.integers(1, 40), st.integers(1, 7), st.booleans(), st.booleans())
@settings(deadline=None, max_examples=60)
def test_the_ledger_of_any_history_is_sound(
    plans: list[RoundPlan], length: int, size: int, fixed: bool, pad: bool
) -> None:
    with TemporaryDirectory() as folder:
        verdict = lived(Path(folder), plans, length=length, size=size, fixed=fixed, pad=pad)
        assert verdict.sound, verdict


@given(rounds, st.integers(7, 40), st.integers(1, 7))
@settings(deadline=None, max_examples=30)
def test_what_was_dropped_is_no_gap(plans: list[RoundPlan], length: int, size: int) -> None:
    with TemporaryDirectory() as folder:
        verdict = lived(Path(folder), plans, length=length, size=size, fixed=True, drop_last=True)
        assert verdict.sound, verdict
        assert {epoch.dropped for epoch in verdict.streams[0].epochs} == {length % size}


def test_a_restore_that_is_forgotten_is_found(tmp_path: Path) -> None:
    """The model's state was restored and the data's was not: samples are trained twice."""
    first = ElasticSampler(
        range(8), batch_size=2, num_replicas=1, rank=0, name="data", ledger=tmp_path
    )
    list(first)
    first.advance()
    state = first.state_dict()
    first.advance()
    second = ElasticSampler(
        range(8), batch_size=2, num_replicas=1, rank=0, name="data", ledger=tmp_path
    )
    second.load_state_dict({**state, "steps": 2})
    list(second)
    for _ in range(3):
        second.advance()
    epoch = check(read_ledger(tmp_path)).streams[0].epochs[0]
    assert epoch.repeated == 2


def test_the_environment_turns_it_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESILE_LEDGER", str(tmp_path / "made"))
    one = ElasticSampler(range(8), batch_size=8, num_replicas=1, rank=0)
    list(one)
    assert not (tmp_path / "made").exists()
    one.advance()
    assert check(read_ledger(tmp_path / "made"), epochs=1).sound


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    one = ElasticSampler(range(8), batch_size=8, ledger=tmp_path / "file")
    with pytest.raises(LedgerError, match=r"cannot be written to .*file: .*unset \$RESILE_LEDGER"):
        one.advance()


def noted_sampler(folder: Path, length: int = 512, **settings: int) -> ElasticSampler:
    chosen = {"batch_size": 32, "num_replicas": 1, "rank": 0, **settings}
    return ElasticSampler(range(length), name="data", ledger=folder, **chosen)  # type: ignore[arg-type]


def test_steps_that_count_more_than_was_read_are_refused(tmp_path: Path) -> None:
    """A script makes batches of 22 itself where the sampler counts 32, and is killed once: the
    samples between would never be trained, and the ledger would say that they were."""
    one = noted_sampler(tmp_path)
    reader = iter(one)
    trained: list[int] = []

    def train() -> None:
        for _ in range(16):
            trained.extend(islice(reader, 22))
            one.advance()

    with pytest.raises(DataMistake, match="a step counts samples that rank 0 has not read"):
        train()
    assert one.completed <= len(trained)
    assert not list(tmp_path.iterdir()), "nothing was written down"


def test_a_step_that_is_counted_twice_is_refused(tmp_path: Path) -> None:
    """Checkpointer.step calls advance() for samplers in its state; this script does so, too."""
    one = noted_sampler(tmp_path)
    loader: DataLoader[int] = DataLoader(range(512), batch_size=32, sampler=one)  # type: ignore[arg-type]
    next(iter(loader))
    one.advance()
    with pytest.raises(DataMistake, match="Call advance"):
        one.advance()
    assert one.completed == 32


def test_a_look_at_the_data_between_steps_is_no_mistake(tmp_path: Path) -> None:
    one = noted_sampler(tmp_path)
    one.set_epoch(0)
    for step, _ in enumerate(DataLoader(range(512), batch_size=32, sampler=one)):  # type: ignore[arg-type]
        if step % 3 == 0:
            next(iter(one))
        one.advance()
    assert check(read_ledger(tmp_path), epochs=1).sound


def test_an_iterator_from_before_a_restore_is_not_counted(tmp_path: Path) -> None:
    one = noted_sampler(tmp_path)
    reader = iter(one)
    list(islice(reader, 32))
    one.advance()
    one.load_state_dict(one.state_dict())
    list(islice(reader, 64))
    with pytest.raises(DataMistake, match="start the iteration after restore"):
        one.advance()


def test_a_rank_that_is_fed_by_another_only_follows(tmp_path: Path) -> None:
    """Tensor or pipeline parallel: one process reads, the others count the same steps."""
    reads = noted_sampler(tmp_path, length=64)
    follows = noted_sampler(tmp_path, length=64, num_replicas=1)
    reads.set_epoch(0)
    follows.set_epoch(0)
    for _ in DataLoader(range(64), batch_size=32, sampler=reads):  # type: ignore[arg-type]
        reads.advance()
    follows.advance()
    follows.advance()
    assert follows.completed == reads.completed == 64
    lines = [path.read_text() for path in tmp_path.iterdir()]
    assert sorted("ids" in text for text in lines) == [False, True]


@given(st.integers(1, 60), st.integers(1, 8), st.lists(st.integers(1, 12), max_size=12))
@settings(max_examples=60, deadline=None)
def test_a_ledger_never_says_more_than_was_read(length: int, size: int, reads: list[int]) -> None:
    """Whatever a script reads before each step, what is recorded was read before."""
    with TemporaryDirectory() as name:
        one = noted_sampler(Path(name), length=length, batch_size=size)
        one.set_epoch(0)
        reader, read = iter(one), set[int]()
        for count in reads:
            read.update(islice(reader, count))
            before = one.completed
            try:
                one.advance()
            except DataMistake:
                assert one.completed == before
                break
            assert one.completed <= len(read)
        if any(Path(name).iterdir()):
            epochs = check(read_ledger(Path(name))).streams[0].epochs
            assert sum(epoch.trained for epoch in epochs) == one.completed
