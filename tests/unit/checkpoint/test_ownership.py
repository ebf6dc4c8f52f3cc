"""Which job may train in a checkpoint folder."""

from __future__ import annotations

import pytest

from resile.checkpoint.fence import belongs_to_another_job, refusal

UNNAMED = [
    *("", "none", "None", "456", "8123745", "7d51c86bc6cb43f99485c1995fb46315"),
    "0f0c9a3e-1111-4222-8333-0123456789ab",
]


@pytest.mark.parametrize("other", [*UNNAMED, "digits"])
@pytest.mark.parametrize("job", UNNAMED)
def test_an_id_that_names_nothing_is_refused_nowhere(job: str, other: str) -> None:
    assert not belongs_to_another_job(other, job)
    assert not belongs_to_another_job(job, other)


def test_only_a_named_job_in_another_named_jobs_folder_is_refused() -> None:
    assert belongs_to_another_job("digits", "letters")
    assert not belongs_to_another_job("digits", "digits")


def test_the_error_names_the_owner_and_both_ways_to_take_the_folder_over() -> None:
    said = refusal("s3://bucket/run-7", "digits", "letters")
    for part in (
        "s3://bucket/run-7",
        "'digits'",
        "'letters'",
        "take_over=True",
        "RESILE_TAKE_OVER",
    ):
        assert part in said
