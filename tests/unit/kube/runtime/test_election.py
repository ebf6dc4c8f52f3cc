"""When a lease is available, on a virtual clock."""

from __future__ import annotations

import pytest

from resile.kube.resources import KubeObject
from resile.kube.runtime.election import LeaseTimes, ObservedLease


def held(by: str | None, renewed: int = 0) -> KubeObject:
    return {"holderIdentity": by, "leaseDurationSeconds": 15, "renewTime": f"t{renewed}"}


def test_a_lease_is_free_only_when_it_was_seen_unchanged_for_its_whole_time() -> None:
    sighting = ObservedLease(held("a"), at=100.0).updated(held("a"), now=110.0)
    assert not sighting.free("b", now=114.9)
    assert sighting.free("b", now=115.0)


def test_every_renewal_begins_the_time_anew() -> None:
    sighting = ObservedLease(held("a"), at=100.0).updated(held("a", renewed=1), now=114.0)
    assert not sighting.free("b", now=128.9)
    assert sighting.free("b", now=129.0)


def test_the_times_written_in_a_lease_do_not_matter() -> None:
    ancient = {**held("a"), "renewTime": "1970-01-01T00:00:00.000000Z"}
    assert not ObservedLease(ancient, at=100.0).free("b", now=101.0)


def test_ones_own_lease_and_a_released_one_are_free_at_once() -> None:
    assert ObservedLease(held("a"), at=100.0).free("a", now=100.0)
    assert ObservedLease(held(None), at=100.0).free("b", now=100.0)
    assert ObservedLease({}, at=100.0).free("b", now=100.0)


@pytest.mark.parametrize(
    ("lease", "deadline", "retry"), [(10, 10, 2), (15, 2, 2), (15, 10, 0), (5, 10, 2)]
)
def test_times_under_which_two_could_lead_are_refused(
    lease: float, deadline: float, retry: float
) -> None:
    with pytest.raises(ValueError, match="must be shorter"):
        LeaseTimes(lease=lease, renew_deadline=deadline, retry=retry)
