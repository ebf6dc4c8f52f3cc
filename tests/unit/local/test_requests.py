"""Requests of users: checked, written to disk before the response, known to the next `up`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from resile.job.events import EventKind
from resile.job.status import JobPhase, JobStatus
from resile.job.view import JobView, ended_view
from resile.local.jobdir import JobDir, Requests
from resile.local.requests import InvalidRequest, NotNow, RequestBook
from tests.unit.control.builders import job

ROLES: dict[str, Any] = {
    "worker": {"command": ["train"], "replicas": {"min": 2, "max": 6}, "nodeUnit": 2},
    "ps": {"command": ["serve"]},
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESILE_HOME", str(tmp_path / "home"))


class Book(RequestBook):
    """A book that records its events, and checks that the requests are on disk by then."""

    def __init__(self, **roles: Any) -> None:
        self.folder = JobDir("train")
        self.folder.path.mkdir(parents=True, exist_ok=True)
        self.said: list[str] = []
        self.is_over = False
        super().__init__(
            job({**ROLES, **roles}), self.folder, over=lambda: self.is_over, changed=self.tell
        )

    def tell(self, kind: EventKind, text: str) -> None:
        assert self.folder.requests() == self.current, "stored before anybody hears of it"
        self.said.append(f"{kind.value}: {text}")


def test_a_request_is_stored_and_told_once() -> None:
    book = Book()
    book.scale({"worker": 4})
    for _ in range(2):
        book.suspend(True)
        book.delete()
        book.current = Requests(sizes={"worker": 4}, suspend=True)
    book.suspend(False)
    assert book.said == [
        "ScaleRequested: a user asked for worker=4",
        "SuspendRequested: a user asked for the job to be suspended",
        "DeletionRequested: a user asked for the job to be deleted",
        "DeletionRequested: a user asked for the job to be deleted",
        "ResumeRequested: a user asked for the job to be resumed",
    ]


def test_a_request_for_one_role_leaves_the_others() -> None:
    book = Book(judge={"command": ["judge"], "replicas": {"min": 0, "max": 2}})
    book.scale({"worker": 4})
    book.scale({"judge": 1})
    assert book.folder.requests().sizes == {"worker": 4, "judge": 1}


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [
        ({"worker": 8}, "role worker may have 2 to 6 nodes, not 8"),
        ({"worker": 0}, "role worker may have 2 to 6 nodes, not 0"),
        ({"worker": 3}, "role worker grows in units of 2 nodes"),
        ({"trainer": 1}, "there is no role 'trainer'; there are worker, ps"),
        ({}, "name at least one role"),
        ({"worker": 4, "ps": 2}, "role ps has 1 node, always"),
    ],
)
def test_a_size_that_the_job_cannot_have_is_refused(sizes: dict[str, int], sentence: str) -> None:
    book = Book()
    with pytest.raises(InvalidRequest, match=sentence):
        book.scale(sizes)
    assert (book.folder.requests(), book.said) == (Requests(), [])


def test_a_job_that_is_over_or_being_deleted_is_not_changed() -> None:
    book = Book()
    book.is_over = True
    with pytest.raises(NotNow, match="the job is over; it cannot be scaled"):
        book.scale({"worker": 4})
    book.is_over = False
    book.delete()
    with pytest.raises(NotNow, match="is being deleted; it cannot be suspended"):
        book.suspend(True)


def test_requests_that_still_fit_are_taken_over_from_a_killed_up() -> None:
    book = Book()
    book.restore(Requests(sizes={"worker": 4, "gone": 1, "ps": 7}, suspend=True, deleting=True))
    assert book.folder.requests() == Requests(sizes={"worker": 4}, suspend=True)
    assert book.said == [
        "ScaleRequested: worker=4, asked for before 'up' was killed",
        "SuspendRequested: suspended, asked for before 'up' was killed",
    ]


def test_requests_of_an_up_that_ended_are_forgotten() -> None:
    folder, running = JobDir("train"), JobView(name="train", phase="Running")
    over = JobView(name="train", phase="Failed", status=JobStatus(phase=JobPhase.FAILED))
    with folder.hold():
        folder.begin()
        assert folder.requests_of_a_killed_up() == Requests(), "it came to nothing"
        folder.write_requests(Requests(suspend=True))
        for last, known in (
            (running, Requests(suspend=True)),
            (ended_view(running, "Interrupted"), Requests()),
            (over, Requests()),
        ):
            folder.write_view(last)
            assert folder.requests_of_a_killed_up() == known
