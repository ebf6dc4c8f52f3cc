"""Two groups of a job in one folder: neither restores, fences or prunes the other's checkpoints."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file

from resile.checkpoint.catalog import CheckpointCatalog, groups_on
from resile.checkpoint.commit import write_part
from resile.checkpoint.errors import NoCheckpoint, PartDamaged, Superseded
from resile.checkpoint.export import open_parts
from resile.checkpoint.fence import RoundClaim, claim, read_fence
from resile.checkpoint.names import group_folder, group_of
from resile.checkpoint.prune import prune, remove_remains
from resile.checkpoint.storage.base import Storage, open_storage, read_whole
from resile.cli.main import cli
from resile.group_name import LONGEST_GROUP, group_from_environment, is_group
from tests.checkpoints import newest_whole
from tests.unit.checkpoint.parts import HASTY, parts_of, rank_part, save

MAIN, EVALUATE, SERVER = "", "evaluate", "ps/0"
GROUPS = (MAIN, EVALUATE, SERVER)

names = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,20}(/[0-9]{1,4})?", fullmatch=True)


@pytest.fixture(params=["local", "memory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return open_storage(tmp_path if request.param == "local" else f"memory://{tmp_path}")


def word(round_: int, step: int, *, group: str) -> RoundClaim:
    name = f"r{round_}-{len(group):08x}"
    return RoundClaim(attempt=name, run="run", round=round_, step=step, time=0, group=group)


def contents(catalog: CheckpointCatalog, step: int) -> list[bytes]:
    checkpoint = catalog.at(step)
    return [read_whole(catalog.storage, checkpoint.path(one)) for one in checkpoint.manifest.parts]


# --- names ------------------------------------------------------------------------------------


@given(first=names, second=names)
def test_each_group_has_a_folder_that_says_whose_it_is(first: str, second: str) -> None:
    assert is_group(first)
    assert group_of(group_folder(first)) == first
    assert (group_folder(first) == group_folder(second)) == (first == second)


@pytest.mark.parametrize(
    "folder", ["group-", "group-A", "group-a..b", "group-.a", "step-000000001"]
)
def test_other_folders_are_no_groups(folder: str) -> None:
    assert group_of(folder) is None


@pytest.mark.parametrize("name", ["..", "a/../b", "A", "a b", "/a", "a/", "a.b", "w" * 129, "ä"])
def test_what_would_lead_elsewhere_is_no_groups_name(name: str) -> None:
    assert not is_group(name)
    with pytest.raises(ValueError, match="not the name of a group"):
        group_folder(name)
    with pytest.raises(ValueError, match="RESILE_GROUP"):
        group_from_environment({"RESILE_GROUP": name})


def test_a_worker_without_a_group_is_in_the_main_one() -> None:
    assert group_from_environment({}) == group_from_environment({"RESILE_GROUP": ""}) == MAIN
    assert group_from_environment({"RESILE_GROUP": "worker/3"}) == "worker/3"
    assert is_group("w" * LONGEST_GROUP)


# --- saving and restoring ---------------------------------------------------------------------


def test_groups_that_save_the_same_steps_find_each_their_own(storage: Storage) -> None:
    for group in GROUPS:
        for step in (10, 20):
            # The attempt is the same on purpose: they must not be kept apart by chance.
            save(storage, step, seed=group, group=group)
    save(storage, 30, seed=EVALUATE, group=EVALUATE)
    assert groups_on(storage) == list(GROUPS)
    for group in GROUPS:
        catalog = CheckpointCatalog(storage, group)
        newest = newest_whole(catalog)
        assert newest.step == (30 if group == EVALUATE else 20)
        assert newest.manifest.group == group
        wanted = [bytes(part) for part in parts_of(newest.step, seed=group, group=group)]
        assert contents(catalog, newest.step) == wanted


def test_a_group_without_checkpoints_has_none_although_others_have(storage: Storage) -> None:
    save(storage, 10)
    with pytest.raises(NoCheckpoint):
        newest_whole(CheckpointCatalog(storage, EVALUATE))
    save(storage, 20, group=EVALUATE)
    assert newest_whole(CheckpointCatalog(storage)).step == 10


def test_a_manifest_in_another_groups_folder_is_told_of_and_passed_over(tmp_path: Path) -> None:
    storage = open_storage(tmp_path)
    save(storage, 10)
    save(storage, 20, group=EVALUATE)
    shutil.copytree(tmp_path / "group-evaluate/step-000000020", tmp_path / "step-000000020")
    shutil.copytree(tmp_path / "step-000000010", tmp_path / "group-evaluate/step-000000010")
    told: list[str] = []
    assert newest_whole(CheckpointCatalog(storage), tell=told.append).step == 10
    assert [text.partition("manifest.json ")[2] for text in told] == [
        "is of group 'evaluate', not of the main group"
    ]
    with pytest.raises(PartDamaged, match="is of the main group, not of group 'evaluate'"):
        CheckpointCatalog(storage, EVALUATE).at(10)


def test_a_part_of_another_group_is_not_the_one_that_a_manifest_names(tmp_path: Path) -> None:
    storage = open_storage(tmp_path)
    save(storage, 10, group="aaaa")
    save(storage, 10, group="bbbb")  # names of one length: also the sizes are the same
    name = "step-000000010/rank-00000-of-00002.a1.safetensors"
    shutil.copy(tmp_path / "group-bbbb" / name, tmp_path / "group-aaaa" / name)
    catalog = CheckpointCatalog(storage, "aaaa")
    with (
        pytest.raises(PartDamaged, match="is not the part that the manifest names"),
        open_parts(catalog, catalog.at(10)),
    ):
        pass


# --- rounds -----------------------------------------------------------------------------------


def test_a_later_round_of_one_group_does_not_supersede_an_earlier_one_of_another(
    storage: Storage,
) -> None:
    third, fifth = word(3, 0, group=MAIN), word(5, 0, group=EVALUATE)
    claim(storage, third)
    claim(storage, fifth)
    for mine in (third, fifth):
        save(storage, 10, attempt=mine.attempt, group=mine.group, claim=mine)
        assert newest_whole(CheckpointCatalog(storage, mine.group)).step == 10
        assert (
            read_fence(storage, mine.group).latest
            == CheckpointCatalog(storage, mine.group).fence().latest
        )
    later = word(6, 0, group=EVALUATE)
    claim(storage, later)
    with pytest.raises(Superseded, match="round 6 of group 'evaluate' continued from step 0"):
        save(storage, 20, attempt=fifth.attempt, group=EVALUATE, claim=fifth)
    save(storage, 20, attempt=third.attempt, claim=third)
    assert newest_whole(CheckpointCatalog(storage)).step == 20


def test_a_claim_in_another_groups_folder_counts_for_nothing(tmp_path: Path) -> None:
    storage = open_storage(tmp_path)
    claim(storage, word(3, 0, group=MAIN))
    claim(storage, word(5, 0, group=EVALUATE))
    shutil.copytree(tmp_path / "group-evaluate/fence", tmp_path / "fence", dirs_exist_ok=True)
    told: list[str] = []
    latest = read_fence(storage, tell=told.append).latest
    assert latest is not None
    assert latest.round == 3
    assert "a claim of group 'evaluate'" in told[0]


# --- old ones ---------------------------------------------------------------------------------


def test_pruning_counts_each_group_for_itself(storage: Storage) -> None:
    for step in (10, 20, 30):
        save(storage, step)
    save(storage, 5, group=EVALUATE)
    prune(CheckpointCatalog(storage), keep=1)
    assert CheckpointCatalog(storage).steps() == [30]
    assert CheckpointCatalog(storage, EVALUATE).steps() == [5]
    save(storage, 6, group=EVALUATE)
    prune(CheckpointCatalog(storage, EVALUATE), keep=1)
    assert CheckpointCatalog(storage, EVALUATE).steps() == [6]
    assert CheckpointCatalog(storage).steps() == [30]


def test_remains_are_removed_by_their_own_group(storage: Storage) -> None:
    write_part(storage, rank_part(7, 0, group=EVALUATE), attempt="r1-00000008", policy=HASTY)
    claim(storage, word(1, 0, group=EVALUATE))
    claim(storage, word(2, 0, group=EVALUATE))
    assert remove_remains(CheckpointCatalog(storage)) == 0
    assert remove_remains(CheckpointCatalog(storage, EVALUATE)) > 0
    assert CheckpointCatalog(storage, EVALUATE).steps() == [] or storage.address.startswith(
        "memory"
    )


# --- resile ckpt ------------------------------------------------------------------------------


def run(*args: object) -> Result:
    return CliRunner().invoke(cli, ["ckpt", *map(str, args)], prog_name="resile")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    storage = open_storage(tmp_path / "c")
    for step in (10, 20):
        save(storage, step)
    for step in (4, 5):
        save(storage, step, group=EVALUATE)
    return tmp_path / "c"


def test_ls_shows_all_groups_or_one(folder: Path) -> None:
    lines = [line.split() for line in run("ls", folder).stdout.splitlines()]
    assert lines[0][:2] == ["GROUP", "STEP"]
    assert [line[:2] for line in lines[1:]] == [
        ["(main)", "20"],
        ["(main)", "10"],
        ["evaluate", "5"],
        ["evaluate", "4"],
    ]
    rows = json.loads(run("ls", folder, "-o", "json", "--group", EVALUATE).stdout)
    assert [(row["group"], row["step"]) for row in rows] == [(EVALUATE, 5), (EVALUATE, 4)]
    main = run("ls", folder, "--group", "").stdout
    assert "GROUP" not in main
    assert len(main.splitlines()) == 3


def test_show_verify_and_export_are_told_which_group(folder: Path, tmp_path: Path) -> None:
    assert "Step:     20" in run("show", folder).stdout
    shown = run("show", folder, "--group", EVALUATE).stdout
    assert "Group:    evaluate" in shown
    assert "Step:     5" in shown
    verified = run("verify", folder)
    assert verified.exit_code == 0
    assert verified.stdout.splitlines() == [
        "step 20: whole",
        "step 10: whole",
        "step 5 of group 'evaluate': whole",
        "step 4 of group 'evaluate': whole",
    ]
    only = run("verify", folder, "--step", 4)
    assert only.stdout.splitlines() == ["step 4 of group 'evaluate': whole"]
    assert "has no checkpoint of step 7" in run("verify", folder, "--step", 7).stderr
    target = tmp_path / "model.safetensors"
    assert run("export", folder, target, "--group", EVALUATE).exit_code == 0
    assert "model.shard" in load_file(target)


def test_prune_keeps_as_many_of_each_group(folder: Path) -> None:
    done = run("prune", folder, "--keep", 1, "--group", EVALUATE)
    assert done.stdout.startswith("removed the checkpoints of steps 4 of group 'evaluate' (")
    assert CheckpointCatalog(open_storage(folder)).steps() == [20, 10]
    done = run("prune", folder, "--keep", 1)
    assert done.stdout.splitlines()[1] == "nothing to remove of group 'evaluate'"
    assert CheckpointCatalog(open_storage(folder)).steps() == [20]


def test_a_group_that_has_nothing_is_said_with_those_that_have(folder: Path) -> None:
    shutil.rmtree(folder / "step-000000010")
    shutil.rmtree(folder / "step-000000020")
    said = run("show", folder)
    assert said.exit_code == 1
    assert "there is no checkpoint in" in said.stderr
    assert "other groups have some: --group 'evaluate'" in said.stderr
    mistaken = run("ls", folder, "--group", "../x")
    assert mistaken.exit_code == 2
    assert "is not a group's name" in mistaken.stderr
