"""What the samplers write into the ledger is what they gave out, through any history."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resile.ledger import LedgerError, Verdict, check, read_ledger
from resile.train.data import ElasticSampler
from tests.unit.train.data.worlds import Job, RoundPlan, batched, noted, plain, rounds

EPOCHS = 2


def lived(
    folder: Path, plans: list[RoundPlan], *, length: int, size: int, fixed: bool, **settings: object
) -> Verdict:
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
    """The state of the model went on and that of the data did not: samples are trained twice."""
    first = ElasticSampler(
        range(8), batch_size=2, num_replicas=1, rank=0, name="data", ledger=tmp_path
    )
    first.advance()
    state = first.state_dict()
    first.advance()
    second = ElasticSampler(
        range(8), batch_size=2, num_replicas=1, rank=0, name="data", ledger=tmp_path
    )
    second.load_state_dict({**state, "steps": 2})
    for _ in range(3):
        second.advance()
    epoch = check(read_ledger(tmp_path)).streams[0].epochs[0]
    assert epoch.repeated == 2


def test_the_environment_turns_it_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESILE_LEDGER", str(tmp_path / "made"))
    one = ElasticSampler(range(8), batch_size=8, num_replicas=1, rank=0)
    assert not (tmp_path / "made").exists()
    one.advance()
    assert check(read_ledger(tmp_path / "made"), epochs=1).sound


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    one = ElasticSampler(range(8), batch_size=8, ledger=tmp_path / "file")
    with pytest.raises(LedgerError, match=r"cannot be written to .*file: .*unset \$RESILE_LEDGER"):
        one.advance()
