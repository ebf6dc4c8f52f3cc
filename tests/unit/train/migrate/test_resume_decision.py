"""Whether a run resumes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from resile.train.migrate.signal_dir import Run, VolumeState, begin
from resile.train.migrate.signals import SPENT, MigrationSignal

OURS = Run(name="a", restarted=False)
RUNS = st.builds(Run, name=st.sampled_from(["", "none", "a", "b"]), restarted=st.booleans())
CLAIMS = st.sampled_from(["", SPENT, "run a", "run b", "run none", "run "])
FOUND = st.builds(
    VolumeState, signal=st.sampled_from(MigrationSignal), saved=st.booleans(), claim=CLAIMS
)


def test_a_save_that_nobody_loaded_is_resumed() -> None:
    assert begin(VolumeState(MigrationSignal.RESUME, True, ""), OURS).resume


def test_a_stale_request_falls_back_on_the_save_before() -> None:
    beginning = begin(VolumeState(MigrationSignal.SAVE, True, "run b"), OURS)
    assert (beginning.resume, beginning.signal) == (True, MigrationSignal.RESUME)


def test_a_stale_request_does_not_bring_back_what_is_spent() -> None:
    beginning = begin(VolumeState(MigrationSignal.SAVE, True, SPENT), OURS)
    assert (beginning.resume, beginning.signal) == (False, MigrationSignal.INIT)


def test_a_run_resumes_again_what_it_loaded_before() -> None:
    assert begin(VolumeState(MigrationSignal.INIT, True, OURS.claim), OURS).resume
    assert not begin(VolumeState(MigrationSignal.INIT, True, "run b"), OURS).resume


def test_a_run_without_a_name_knows_only_its_own_restarts() -> None:
    for name in ("", "none"):
        claim = Run(name, restarted=False).claim
        assert not begin(
            VolumeState(MigrationSignal.INIT, True, claim), Run(name, restarted=False)
        ).resume
        assert begin(
            VolumeState(MigrationSignal.INIT, True, claim), Run(name, restarted=True)
        ).resume


@given(FOUND, RUNS)
def test_no_run_begins_with_a_request(found: VolumeState, run: Run) -> None:
    assert begin(found, run).signal is not MigrationSignal.SAVE


@given(FOUND, RUNS)
def test_nothing_is_resumed_that_is_not_there(found: VolumeState, run: Run) -> None:
    assert found.saved or not begin(found, run).resume


@given(FOUND, RUNS)
def test_a_file_that_is_passed_over_is_never_resumed_by_a_later_stale_request(
    found: VolumeState, run: Run
) -> None:
    beginning = begin(found, run)
    if found.saved and not beginning.resume:
        claim = found.claim if beginning.claim is None else beginning.claim
        assert not begin(VolumeState(MigrationSignal.SAVE, True, claim), run).resume
