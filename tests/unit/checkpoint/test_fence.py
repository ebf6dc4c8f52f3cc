"""Superseded rounds: what they may still publish, and what is never restored."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from resile.checkpoint.catalog import CheckpointCatalog
from resile.checkpoint.commit import publish, write_part
from resile.checkpoint.errors import NoCheckpoint, Superseded
from resile.checkpoint.fence import MOST_CLAIMS, RoundClaim, StorageFence, claim, read_fence
from resile.checkpoint.prune import prune
from resile.checkpoint.storage.base import Storage, open_storage
from resile.checkpoint.storage.local import LocalStorage
from resile.cli.main import cli
from tests.checkpoints import newest_whole
from tests.unit.checkpoint.damages import DAMAGES
from tests.unit.checkpoint.parts import HASTY, REPLICAS, WORLD, parts_of


def word(
    round_: int, step: int, *, run: str = "run", job: str = "digits", time: float = 0
) -> RoundClaim:
    return RoundClaim(
        attempt=f"r{round_}-{run.encode().hex():0>8}",
        run=run,
        round=round_,
        step=step,
        job=job,
        time=time,
    )


def save(storage: Storage, step: int, mine: RoundClaim, *, attempt: str = "") -> None:
    """Save a checkpoint of one round."""
    for part in parts_of(step, seed=mine.attempt):
        write_part(storage, part, attempt=attempt or mine.attempt, policy=HASTY)
    publish(
        storage,
        step=step,
        world=WORLD,
        replicas=REPLICAS,
        attempt=attempt or mine.attempt,
        round=mine.round,
        claim=mine,
        policy=HASTY,
    )


@pytest.fixture(params=["local", "memory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    name = tmp_path if request.param == "local" else f"memory://{tmp_path}"
    return open_storage(name)


def test_a_round_that_is_over_publishes_what_the_next_one_went_on_from_and_no_more(
    storage: Storage,
) -> None:
    first, second = word(1, 0), word(2, 100)
    save(storage, 50, first)
    claim(storage, second)
    save(storage, 90, first)
    save(storage, 100, first, attempt=f"{first.attempt}-2")
    for step in (101, 110):
        with pytest.raises(Superseded, match="round 2 of job 'digits' continued from step 100"):
            save(storage, step, first)
    save(storage, 110, second)
    catalog = CheckpointCatalog(storage)
    assert [one.step for one in catalog.checkpoints()] == [110, 100, 90, 50]
    assert newest_whole(catalog).manifest.round == 2


def test_a_round_that_claims_late_supersedes_no_later_one(storage: Storage) -> None:
    """Its first step took longer than the whole next round."""
    first, second = word(1, 0), word(2, 100)
    save(storage, 120, second)
    with pytest.raises(Superseded):
        save(storage, 130, first)
    assert read_fence(storage).latest == next(
        one for one in read_fence(storage).claims if one.round == 2
    )
    save(storage, 130, second)


def test_a_job_that_is_started_anew_counts_from_one_and_is_not_taken_for_an_older_round(
    storage: Storage,
) -> None:
    save(storage, 70, word(7, 60, run="before"))
    again = word(1, 70, run="again")
    save(storage, 80, again)
    save(storage, 90, word(2, 80, run="again"))
    assert newest_whole(CheckpointCatalog(storage)).step == 90
    with pytest.raises(Superseded):
        save(storage, 80, word(7, 60, run="before"))


def test_clocks_that_go_wrong_do_not_change_the_order(storage: Storage) -> None:
    claim(storage, word(1, 0, run="a"), now=lambda: 1e9)
    fence = claim(storage, word(1, 10, run="b"), now=lambda: 5.0)
    latest = fence.latest
    assert latest is not None
    assert latest.run == "b"


class Overtaken(LocalStorage):
    """A round claims the folder between the last check and the rename."""

    def write(
        self,
        path: str,
        chunks: Iterable[memoryview],
        *,
        just_before: Callable[[], None] = lambda: None,
    ) -> None:
        def look_and_be_overtaken() -> None:
            just_before()
            if path.endswith("manifest.json"):
                claim(LocalStorage(self.root), word(2, 100))

        super().write(path, chunks, just_before=look_and_be_overtaken)


def test_what_was_published_in_the_last_moment_is_never_gone_on_with(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    save(storage, 100, word(1, 0))
    with pytest.raises(Superseded):
        save(Overtaken(tmp_path), 110, word(1, 0))
    catalog = CheckpointCatalog(storage)
    assert newest_whole(catalog).step == 100
    late = catalog.at(110)
    assert catalog.fence().superseded(late.attempt, late.step) == (
        "round 1 was superseded: round 2 of job 'digits' continued from step 100"
    )
    listed = CliRunner().invoke(cli, ["ckpt", "ls", str(tmp_path)])
    assert "superseded" in listed.stdout
    assert prune(catalog, keep=3).steps == (110,)


def test_checkpoints_that_are_all_superseded_are_no_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(Superseded):
        save(Overtaken(tmp_path), 110, word(1, 0))
    with pytest.raises(NoCheckpoint):
        newest_whole(CheckpointCatalog(LocalStorage(tmp_path)))


def test_a_look_comes_right_before_the_file_appears(tmp_path: Path) -> None:
    """Whatever the check raises leaves nothing behind."""

    def refuse() -> None:
        raise Superseded("no")

    for address in (str(tmp_path / "a"), f"memory://{tmp_path}/b"):
        storage = open_storage(address)
        storage.write("x/one", [memoryview(b"old")])
        with pytest.raises(Superseded):
            storage.write("x/one", [memoryview(b"new")], just_before=refuse)
        assert [item.name for item in storage.list("x")] == ["one"]
        with storage.open("x/one") as file:
            assert bytes(file.read(0, 3)) == b"old"


@pytest.mark.timeout(60)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_claim_is_said_and_stops_nobody(tmp_path: Path, damage: str) -> None:
    storage = LocalStorage(tmp_path)
    save(storage, 10, word(1, 0))
    DAMAGES[damage](tmp_path / "fence" / f"{word(1, 0).attempt}.json")
    told: list[str] = []
    read_fence(storage, tell=told.append)
    assert len(told) == (damage != "link to itself")
    save(storage, 20, word(2, 10))
    assert newest_whole(CheckpointCatalog(storage), tell=told.append).step == 20


def test_old_claims_are_removed(storage: Storage) -> None:
    for number in range(1, MOST_CLAIMS + 11):
        claim(storage, word(number, number))
    kept = sorted(one.round for one in read_fence(storage).claims)
    assert kept == list(range(11, MOST_CLAIMS + 11))


@settings(deadline=None)
@given(st.lists(st.integers(0, 50), min_size=1, max_size=6), st.data())
def test_a_step_counts_if_no_later_round_went_back_behind_it(
    begins: list[int], data: st.DataObject
) -> None:
    claims = [word(n, step, time=float(n)) for n, step in enumerate(begins, start=1)]
    fence = StorageFence(tuple(data.draw(st.permutations(claims))))
    for number, mine in enumerate(claims):
        for step in range(52):
            counts = all(step <= later for later in begins[number + 1 :])
            assert (fence.superseded(mine.attempt, step) == "") == counts
            assert (fence.superseded_round("run", mine.round, step) == "") == counts
    assert fence.latest == claims[-1]
    assert fence.superseded("r9-00000000", 10**6) == ""
