"""``resile ckpt``: its output and its exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from safetensors.numpy import load_file

from resile.checkpoint.storage.local import LocalStorage
from resile.cli.main import cli
from tests.unit.checkpoint.parts import save

Run = Callable[..., Result]


@pytest.fixture
def run() -> Run:
    return lambda *args: CliRunner().invoke(cli, ["ckpt", *map(str, args)], prog_name="resile")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for step in (10, 20, 30):
        save(LocalStorage(tmp_path / "c"), step)
    return tmp_path / "c"


def damage(folder: Path, step: int) -> None:
    file = folder / f"step-{step:09d}" / "rank-00001-of-00002.a1.safetensors"
    file.write_bytes(bytes(file.stat().st_size))


def test_ls_shows_steps_sizes_world_and_state(run: Run, folder: Path) -> None:
    (folder / "step-000000010" / "rank-00001-of-00002.a1.safetensors").unlink()
    done = run("ls", folder)
    assert done.exit_code == 0
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0] == ["STEP", "SIZE", "WORLD", "PARTS", "ROUND", "AGE", "JOB", "STATE"]
    assert [line[:5] for line in lines[1:]] == [
        [step, "1.4Ki", "2", "3", "0"] for step in ("30", "20", "10")
    ]
    assert lines[1][-1] == "whole"
    assert "damaged: rank-00001-of-00002.a1 is missing" in done.stdout


def test_ls_and_show_give_json(run: Run, folder: Path) -> None:
    rows = json.loads(run("ls", folder, "-o", "json").stdout)
    assert [row["step"] for row in rows] == [30, 20, 10]
    shown = json.loads(run("show", folder, "--step", 20, "--tensors", "-o", "json").stdout)
    assert shown["step"] == 20
    assert shown["parts"][0]["name"] == "rank-00000-of-00002.a1"
    assert [one["name"] for one in shown["tensors"]] == ["model.shard", "model.weight0"]
    assert shown["tensors"][0] == {
        "name": "model.shard",
        "dtype": "F32",
        "shape": [6, 5],
        "size": 120,
        "slices": 2,
    }


def test_show_is_about_the_newest_unless_told_otherwise(run: Run, folder: Path) -> None:
    done = run("show", folder, "--tensors")
    assert done.exit_code == 0
    assert "Step:     30" in done.stdout
    assert "replica-00000-of-00001.a1" in done.stdout
    assert "10x10" in done.stdout


def test_verify_says_what_is_whole(run: Run, folder: Path) -> None:
    done = run("verify", folder)
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [f"step {step}: whole" for step in (30, 20, 10)]


def test_verify_names_damaged_parts_and_exits_with_1(run: Run, folder: Path) -> None:
    damage(folder, 20)
    done = run("verify", folder)
    assert done.exit_code == 1
    assert (
        "step 20: damaged\n  rank-00001-of-00002.a1 was changed after it was written" in done.stdout
    )
    assert "1 of 3 are damaged" in done.stderr
    assert run("verify", folder, "--step", 30).exit_code == 0


def test_verify_counts_a_manifest_that_cannot_be_read(run: Run, folder: Path) -> None:
    (folder / "step-000000020" / "manifest.json").write_text("{")
    done = run("verify", folder)
    assert done.exit_code == 1
    assert "step-000000020/manifest.json is not a manifest" in done.stderr
    assert "1 of 3 are damaged" in done.stderr


def test_prune_says_what_it_removes_and_a_dry_run_removes_nothing(run: Run, folder: Path) -> None:
    done = run("prune", folder, "--keep", 1, "--dry-run")
    assert done.stdout.startswith("would remove the checkpoints of steps 10, 20 (")
    assert len(list(folder.iterdir())) == 3
    done = run("prune", folder, "--keep", 1)
    assert done.stdout.startswith("removed the checkpoints of steps 10, 20 (")
    assert [path.name for path in folder.iterdir()] == ["step-000000030"]
    assert run("prune", folder, "--keep", 1).stdout == "nothing to remove\n"


def test_export_writes_one_plain_file(run: Run, folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "model.safetensors"
    done = run("export", folder, target, "--only", "model", "--step", 20)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(f"wrote step 20 to {target}")
    assert sorted(load_file(target)) == ["shard", "weight0"]


def test_export_overwrites_only_when_told(run: Run, folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "all.safetensors"
    target.write_text("precious")
    done = run("export", folder, target)
    assert done.exit_code == 2
    assert "--force overwrites it" in done.stderr
    assert target.read_text() == "precious"
    assert run("export", folder, target, "--force").exit_code == 0


def test_a_damaged_checkpoint_is_not_exported(run: Run, folder: Path, tmp_path: Path) -> None:
    damage(folder, 30)
    done = run("export", folder, tmp_path / "all.safetensors")
    assert done.exit_code == 1
    assert "rank-00001-of-00002.a1" in done.stderr
    assert not (tmp_path / "all.safetensors").exists()


@pytest.mark.parametrize(
    ("args", "said", "code"),
    [
        (["ls", "none"], "there is no folder", 1),
        (["show", "none"], "there is no folder", 1),
        (["verify", "none"], "there is no folder", 1),
        (["prune", "none", "--keep", "1"], "there is no folder", 1),
        (["export", "none", "x.pt"], "there is no folder", 1),
        (["ls", "."], "there is no checkpoint in", 1),
        (["show", ".", "--step", "7"], "has no checkpoint of step 7", 1),
        (["ls", "nosuch://x"], "is not a storage", 1),
        (["export", ".", "x.bin"], "must end in .safetensors or .pt", 2),
        (["prune", ".", "--keep", "0"], "--keep", 2),
        (["prune", "."], "Missing option '--keep'", 2),
    ],
    ids=lambda one: "-".join(one) if isinstance(one, list) else "",
)
def test_mistakes_are_said_in_a_line_or_two(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], said: str, code: int
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(*args)
    assert done.exit_code == code
    assert said in done.stderr
    assert len(done.stderr.splitlines()) <= 2


@pytest.mark.parametrize("command", ["ls", "show", "verify", "prune", "export"])
def test_each_command_shows_examples(run: Run, command: str) -> None:
    assert f"resile ckpt {command} checkpoints/" in run(command, "--help").stdout
