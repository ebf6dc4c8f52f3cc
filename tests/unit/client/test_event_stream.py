"""A job's history from Kubernetes Events."""

from __future__ import annotations

from typing import Any

from resile.client.cluster.event_stream import EventHistory

JOB = {
    "apiVersion": "resile.dev/v1alpha1",
    "kind": "ElasticJob",
    "metadata": {"name": "digits", "uid": "u1", "creationTimestamp": "2024-05-01T10:00:00Z"},
    "spec": {"roles": {"worker": {"image": "x", "command": ["y"]}}},
}


def event(
    number: int, *, kind: str = "ElasticJob", name: str = "digits", uid: str = "u1", **more: Any
) -> dict[str, Any]:
    return {
        "metadata": {"name": f"e{number}", "uid": f"e{number}", "resourceVersion": str(number)},
        "involvedObject": {"kind": kind, "name": name, "uid": uid},
        "reason": "Told",
        "message": f"number {number}",
        "lastTimestamp": "2024-05-01T10:00:05Z",
        **more,
    }


def texts(story: EventHistory) -> list[str]:
    return [one.text for one in story.events]


def test_events_of_one_second_are_in_the_order_of_their_writing() -> None:
    story = EventHistory(JOB)
    story.take([event(10), event(9), event(2, lastTimestamp="2024-05-01T10:00:04Z")])
    assert texts(story) == ["number 2", "number 9", "number 10"]
    assert [one.seq for one in story.events] == [1, 2, 3]


def test_an_event_is_told_again_only_when_its_count_has_grown() -> None:
    story = EventHistory(JOB)
    assert len(story.take([event(1)])) == 1
    assert story.take([event(1)]) == []
    (again,) = story.take([event(1, count=4)])
    assert (again.text, again.seq) == ("number 1 (4 times)", 2)


def test_other_jobs_and_pods_are_not_part_of_it() -> None:
    story = EventHistory(JOB)
    pods = (
        "digits-worker-0",
        "digits-master-0",
        "digits-ps-0",
        "digits-worker-x",
        "other-worker-0",
    )
    told = [event(n, kind="Pod", name=name, uid="p") for n, name in enumerate(pods)]
    story.take([*told, event(7, uid="u0"), event(8, kind="Service")])
    assert texts(story) == ["digits-worker-0: number 0", "digits-master-0: number 1"]


def test_pods_of_an_earlier_job_of_the_name_are_not_part_of_it() -> None:
    story = EventHistory(JOB)
    old = event(1, kind="Pod", name="digits-worker-0", lastTimestamp="2024-05-01T09:00:00Z")
    story.take([old])
    assert texts(story) == []


def test_events_of_newer_reporters_have_other_times() -> None:
    story = EventHistory(JOB)
    series = {"count": 3, "lastObservedTime": "2024-05-01T10:00:09.500000Z"}
    told = {"lastTimestamp": None, "eventTime": "2024-05-01T10:00:01.000000Z", "series": series}
    (view,) = story.take([event(1, **told)])
    assert view.text.endswith("(3 times)")
    assert view.time % 60 == 9.5
