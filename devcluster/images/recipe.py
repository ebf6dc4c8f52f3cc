"""What the images are made of, and keys that change exactly when that does.

Only the files that deploy/Containerfile copies count. They are copied into a folder of their own
before a build begins (`snapshot`), because both images must hold the same source even if somebody
saves a file in between, and because the key must be that of what was really built.
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
    """An image to be pushed: its name, its target in the Containerfile and what goes in."""

    name: str
    target: str
    inputs: tuple[str, ...]
    tag: str = "dev"

    @property
    def local(self) -> str:
        """Its name in the store of builds."""
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
    """A target that is never pushed, and dear enough to be kept for the next build."""

    target: str
    inputs: tuple[str, ...] = _REQUIREMENTS

    @property
    def local(self) -> str:
        """Named, because pruning takes away what has no name."""
        return f"localhost/resile-stage:{self.target}"


STAGES = (Stage("requirements"), Stage("tools"), Stage("train-deps"))

EVERY_INPUT = (*_SOURCE, "examples")


def files(root: Path, inputs: Iterable[str]) -> Iterator[Path]:
    """Every file under the inputs, relative to ``root``, in one order; no compiled Python."""
    for name in sorted(inputs):
        path = root / name
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in found:
            if file.is_file() and "__pycache__" not in file.parts:
                yield file.relative_to(root)


def content_key(root: Path, inputs: Iterable[str], *, also: str = "") -> str:
    """Changes with any name or byte of the inputs, or with ``also``; not with times."""
    digest = hashlib.sha256(also.encode())
    for file in files(root, inputs):
        content = (root / file).read_bytes()
        digest.update(f"\0{file}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def snapshot(root: Path, into: Path) -> Path:
    """A copy of every input, as it is now."""
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
