"""The command lines of buildah and debootstrap."""

from pathlib import Path

from devcluster.images.base import BASE, BaseRecipe, debootstrap_argv, trim
from devcluster.images.buildah import Buildah, Context, build_arguments
from devcluster.images.pip_settings import PipSettings


def context() -> Context:
    pip = PipSettings.of("global.find-links='/srv/wheels'")
    return Context(
        Path("/c"), Path("/c/deploy/Containerfile"), pip=pip, pip_conf=Path("/run/pip.conf")
    )


def test_a_build_names_target_file_and_folder_and_never_pulls() -> None:
    arguments = build_arguments("train", name="localhost/x:dev", context=context())
    assert arguments[0] == "bud"
    assert arguments[-1] == "/c"
    assert {
        "--pull-never",
        "--layers",
        "--target=train",
        "--tag=localhost/x:dev",
        "--file=/c/deploy/Containerfile",
    } <= set(arguments)


def test_a_build_gets_the_pip_conf_as_a_secret_and_its_folders_as_volumes() -> None:
    arguments = build_arguments("resile", name="localhost/x:dev", context=context())
    assert "--secret=id=pip.conf,src=/run/pip.conf" in arguments
    assert "--volume=/srv/wheels:/mnt/pip/0:ro" in arguments


def test_every_call_is_bound_to_its_own_store() -> None:
    one = Buildah(Path("/cache/overlay"), driver="overlay", log=Path("/l")).argv("images")
    two = Buildah(Path("/cache/vfs"), driver="vfs", log=Path("/l")).argv("images")
    assert one[1] == "--root=/cache/overlay"
    assert one[3:] == ["--storage-driver=overlay", "images"]
    assert one[2].startswith("--runroot=/run/")
    assert one[2] != two[2]


def test_debootstrap_mounts_in_a_namespace_of_its_own() -> None:
    argv = debootstrap_argv(BaseRecipe(packages=("a", "b")), Path("/tree"))
    assert argv[:3] == ["unshare", "--mount", "debootstrap"]
    assert argv[-3:] == ["--include=a,b", "bookworm", "/tree"]


def test_the_bases_key_changes_with_its_recipe() -> None:
    assert BaseRecipe().key == BASE.key
    assert BaseRecipe(packages=("python3",)).key != BASE.key
    assert BaseRecipe(removed=()).key != BASE.key


def test_trimming_removes_files_and_folders_but_nothing_behind_a_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    docs = tmp_path / "tree" / "usr" / "share" / "doc"
    (docs / "package").mkdir(parents=True)
    (docs / "package" / "readme").touch()
    (docs / "file").touch()
    (docs / "link").symlink_to(outside)
    trim(tmp_path / "tree", BaseRecipe(removed=("usr/share/doc/*",)))
    assert list(docs.iterdir()) == []
    assert (outside / "kept").exists()
