"""The inputs of the images, and keys that change exactly when the inputs change.

Only the files that deploy/Containerfile copies count. They are copied into a separate folder before
a build begins (`snapshot`), because both images must have the same source even if a file is saved
in between, and because the key must match what was actually built.
"""

import hashlib
import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

CONTAINERFILE = "deploy/Containerfile"

_REQUIREMENTS = (CONTAINERFILE, ".containerignore", "pyproject.toml", "constraints.txt")
_SOURCE = (*_REQUIREMENTS, "README.md", "LICENSE", "resile")


@dataclass(frozen=True)
class Image:
    """An image to be pushed: its name, its target in the Containerfile and its inputs."""

    name: str
    target: str
    inputs: tuple[str, ...]
    tag: str = "dev"

    @property
    def local(self) -> str:
        """Its name in buildah's store."""
        return f"localhost/{self.name}:{self.tag}"

    def remote(self, registry: str) -> str:
        """Its name for pods."""
        return f"{registry}/{self.name}:{self.tag}"


IMAGES = (
    Image("resile", "resile", _SOURCE),
    Image("resile-train", "train", (*_SOURCE, "examples")),
)


@dataclass(frozen=True)
class Stage:
    """A target that is not pushed, and expensive enough to be kept for the next build."""

    target: str
    inputs: tuple[str, ...] = _REQUIREMENTS

    @property
    def local(self) -> str:
        """Its name in buildah's store; pruning removes unnamed images."""
        return f"localhost/resile-stage:{self.target}"


STAGES = (Stage("requirements"), Stage("tools"), Stage("train-deps"))

EVERY_INPUT = (*_SOURCE, "examples")


def files(root: Path, inputs: Iterable[str]) -> Iterator[Path]:
    """Every file of the inputs, relative to ``root``, in a fixed order; no compiled Python."""
    for name in sorted(inputs):
        path = root / name
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in found:
            if file.is_file() and "__pycache__" not in file.parts:
                yield file.relative_to(root)


def content_key(root: Path, inputs: Iterable[str], *, also: str = "") -> str:
    """A hash of the names and content of the inputs, and of ``also``; not of modification times."""
    digest = hashlib.sha256(also.encode())
    for file in files(root, inputs):
        content = (root / file).read_bytes()
        digest.update(f"\0{file}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def snapshot(root: Path, into: Path) -> Path:
    """Copy every input, as it is now, into a folder."""
    shutil.rmtree(into, ignore_errors=True)
    for file in files(root, EVERY_INPUT):
        (into / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / file, into / file)
    return into


def base_name(containerfile: str) -> str:
    """The image that the Containerfile starts from."""
    found = re.search(r"^FROM (\S+)", containerfile, re.MULTILINE)
    if found is None:
        raise ValueError("the Containerfile has no FROM line")
    return found[1]
