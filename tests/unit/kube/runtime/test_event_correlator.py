"""Which notes become separate events, on a virtual clock."""

from __future__ import annotations

from resile.kube.runtime.event_correlator import FOLDED, EventCorrelator, EventLimits, Note

LIMITS = EventLimits(different=3, fold_seconds=100, burst=5, refill_seconds=10)


def note(message: str, *, at: float = 0.0, name: str = "a", reason: str = "Why") -> Note:
    return Note({"kind": "Pod", "name": name, "uid": name}, reason, message, False, at=at)


def admit(correlator: EventCorrelator, one: Note) -> Note | None:
    """Admit a note at its own time."""
    return correlator.admit(one, now=one.at)


def test_the_same_note_is_the_same_event() -> None:
    correlator = EventCorrelator(LIMITS)
    first = correlator.running(note("x"), name="one")
    assert correlator.running(note("x", at=5), name="two") is first
    assert correlator.running(note("y"), name="three").name == "three"
    assert correlator.running(note("x", name="b"), name="four").name == "four"


def test_an_event_that_is_gone_is_made_anew() -> None:
    correlator = EventCorrelator(LIMITS)
    correlator.running(note("x"), name="one")
    correlator.forget(note("x"))
    assert correlator.running(note("x"), name="two").name == "two"


def test_ever_new_messages_are_folded_into_one_event() -> None:
    correlator = EventCorrelator(LIMITS)
    told = [admit(correlator, note(f"m{n}", at=n * 10.0)) for n in range(6)]
    messages = [one.message for one in told if one]
    assert messages == ["m0", "m1", "m2", *(f"{FOLDED}m{n}" for n in (3, 4, 5))]
    folded = [one for one in told[3:] if one]
    names = {correlator.running(one, name=one.message).name for one in folded}
    assert len(names) == 1


def test_messages_told_before_the_fold_keep_their_event() -> None:
    correlator = EventCorrelator(LIMITS)
    for number in range(4):
        admit(correlator, note(f"m{number}", at=number * 10.0))
    again = admit(correlator, note("m1", at=50.0))
    assert again is not None
    assert again.message == "m1"


def test_other_reasons_and_later_times_are_not_folded() -> None:
    correlator = EventCorrelator(LIMITS)
    for number in range(4):
        admit(correlator, note(f"m{number}", at=number * 10.0))
    for other in (note("m9", at=40, reason="Other"), note("m9", at=500)):
        admitted = admit(correlator, other)
        assert admitted is not None
        assert admitted.message == "m9"


def test_one_object_gets_a_burst_and_then_one_every_so_often() -> None:
    correlator = EventCorrelator(LIMITS)
    admitted = [admit(correlator, note("x", at=0.0)) is not None for _ in range(8)]
    assert admitted == [True] * 5 + [False] * 3
    assert admit(correlator, note("x", at=9.0)) is None
    assert admit(correlator, note("x", at=11.0)) is not None
    assert admit(correlator, note("x", at=12.0)) is None
    assert admit(correlator, note("x", at=12.0, name="b")) is not None


def test_what_is_remembered_is_bounded() -> None:
    correlator = EventCorrelator(EventLimits(remembered=2))
    for name in "abc":
        correlator.running(note("x", name=name), name=name)
    assert correlator.running(note("x", name="c"), name="new").name == "c"
    assert correlator.running(note("x", name="a"), name="new").name == "new"


def test_a_note_that_tells_of_another_time_earns_nothing_with_it() -> None:
    correlator = EventCorrelator(LIMITS)
    told = [correlator.admit(note("x", at=n * 1e6), now=0.0) is not None for n in range(8)]
    assert told == [True] * 5 + [False] * 3
