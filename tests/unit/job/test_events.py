"""Kinds of events: one list, each with a severity, and readers that accept unknown kinds."""

from __future__ import annotations

import pytest

from resile.job.events import EventKind, Severity, severity_of


@pytest.mark.parametrize("kind", list(EventKind))
def test_a_kind_is_one_camel_case_word_as_kubernetes_wants_reasons(kind: EventKind) -> None:
    assert kind.value.isalpha()
    assert kind.value[0].isupper()
    assert len(kind.value) <= 128
    assert severity_of(kind.value) is kind.severity


def test_failures_are_warnings_and_successes_are_not() -> None:
    assert EventKind.JOB_FAILED.severity is Severity.WARNING
    assert EventKind.NODE_LEFT.severity is Severity.NOTICE
    assert EventKind.JOB_SUCCEEDED.severity is Severity.NORMAL


def test_a_kind_of_another_version_is_normal() -> None:
    assert severity_of("SomethingOfTomorrow") is Severity.NORMAL
