"""The base image, built with debootstrap: Debian bookworm with its own Python 3.11.

It replaces the official Python image on Debian slim and has the same content: Python with `venv`,
certificates, time zones, and no documentation. debootstrap mounts /proc into the tree it creates;
it runs in its own mount namespace, so the mount ends with it, and deleting the tree of a killed run
cannot reach the live system.
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
    """Everything that determines the content of the base image."""

    suite: str = "bookworm"
    packages: tuple[str, ...] = ("ca-certificates", "netbase", "python3", "python3-venv", "tzdata")
    path: str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    # Leftovers of the installation, and files that describe this machine instead of the image.
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
    """The command line that creates the tree."""
    include = f"--include={','.join(recipe.packages)}"
    installer = ["debootstrap", "--variant=minbase", include, recipe.suite, str(tree)]
    return ["unshare", "--mount", *installer]


def is_made(buildah: Buildah, *, name: str, recipe: BaseRecipe = BASE) -> bool:
    """Whether the store has a base image of exactly this recipe."""
    return buildah.label(name, LABEL) == recipe.key


def make(buildah: Buildah, *, name: str, work: Path, recipe: BaseRecipe = BASE) -> None:
    """Build the base image and store it under the name in the Containerfile."""
    shutil.rmtree(work, ignore_errors=True)
    work.parent.mkdir(parents=True, exist_ok=True)
    logged(debootstrap_argv(recipe, work), log=buildah.log)
    trim(work, recipe)
    environment = {"PATH": recipe.path, "LANG": "C.UTF-8"}
    buildah.import_tree(work, name=name, env=environment, labels={LABEL: recipe.key})
    shutil.rmtree(work)


def trim(tree: Path, recipe: BaseRecipe) -> None:
    """Remove files that an image does not need."""
    for pattern in recipe.removed:
        for path in tree.glob(pattern):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
