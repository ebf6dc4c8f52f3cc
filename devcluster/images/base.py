"""The base image, made with debootstrap: Debian bookworm with its own Python 3.11.

It stands in for the official Python image on Debian slim, and holds what that one is known for:
Python with `venv`, certificates, time zones, and no documentation. debootstrap mounts /proc into
the tree it makes; in a mount namespace of its own that mount goes with it, so a killed run leaves
nothing through which deleting the tree would reach the live system.
"""

import shutil
from dataclasses import asdict, dataclass
from hashlib import sha256
from json import dumps
from pathlib import Path

from devcluster.images.buildah import Buildah
from devcluster.images.programs import logged

LABEL = "dev.resile.base"


@dataclass(frozen=True)
class BaseRecipe:
    """Everything that decides what is in the base."""

    suite: str = "bookworm"
    packages: tuple[str, ...] = ("ca-certificates", "netbase", "python3", "python3-venv", "tzdata")
    path: str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    # What the installation leaves behind, and what describes this machine instead of the image.
    removed: tuple[str, ...] = (
        "etc/hostname",
        "etc/resolv.conf",
        "usr/share/doc/*",
        "usr/share/info/*",
        "usr/share/locale/*",
        "usr/share/man/*",
        "var/cache/apt/*.bin",
        "var/cache/apt/archives/*.deb",
        "var/cache/debconf/*-old",
        "var/lib/apt/lists/*",
        "var/log/*.log",
        "var/log/apt/*",
    )

    @property
    def key(self) -> str:
        return sha256(dumps(asdict(self)).encode()).hexdigest()[:16]


BASE = BaseRecipe()


def debootstrap_argv(recipe: BaseRecipe, tree: Path) -> list[str]:
    """The call that makes the tree."""
    include = f"--include={','.join(recipe.packages)}"
    installer = ["debootstrap", "--variant=minbase", include, recipe.suite, str(tree)]
    return ["unshare", "--mount", *installer]


def is_made(buildah: Buildah, *, name: str, recipe: BaseRecipe = BASE) -> bool:
    """Whether the store has a base of exactly this recipe."""
    return buildah.label(name, LABEL) == recipe.key


def make(buildah: Buildah, *, name: str, work: Path, recipe: BaseRecipe = BASE) -> None:
    """Make the base and put it into the store under the name the Containerfile asks for."""
    shutil.rmtree(work, ignore_errors=True)
    work.parent.mkdir(parents=True, exist_ok=True)
    logged(debootstrap_argv(recipe, work), log=buildah.log)
    trim(work, recipe)
    environment = {"PATH": recipe.path, "LANG": "C.UTF-8"}
    buildah.import_tree(work, name=name, env=environment, labels={LABEL: recipe.key})
    shutil.rmtree(work)


def trim(tree: Path, recipe: BaseRecipe) -> None:
    """Remove what an image has no use for."""
    for pattern in recipe.removed:
        for path in tree.glob(pattern):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
