"""Hand this machine's way of finding packages to pip inside a build, and not to the image.

pip says what it is configured to (`pip config list`: files and environment merged). What concerns
the way to packages goes into a pip.conf for the build's secret. Folders and files named there lie
on this machine, so they are mounted, under names of their own: an empty mount point remains in the
image, and it should not tell where this machine keeps things.
"""

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

MOUNTED_AT = "/mnt/pip"

_INDEXES = ("index-url", "extra-index-url")
_PATHS = ("find-links", "cert", "client-cert")
_OTHERS = ("no-index", "trusted-host", "proxy", "timeout", "default-timeout", "retries")
_FILE_URL = "file://"


@dataclass
class PipSettings:
    """A pip.conf, and the volumes it speaks of: from the path here to the path in the build."""

    options: dict[str, str] = field(default_factory=dict)
    volumes: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, config_list: str) -> "PipSettings":
        """From the output of `pip config list`."""
        settings = cls()
        for option, value in _options(config_list):
            if option in _INDEXES + _PATHS:
                words = value.split()
                settings.options[option] = "\n    ".join(
                    settings._moved(word, index=option in _INDEXES) for word in words
                )
            elif option in _OTHERS:
                settings.options[option] = value
        return settings

    def text(self) -> str:
        """The pip.conf."""
        lines = [f"{option} = {value}" for option, value in sorted(self.options.items())]
        return "\n".join(["[global]", *lines, ""])

    def volume_arguments(self) -> list[str]:
        """For buildah and podman."""
        return [f"--volume={here}:{there}:ro" for here, there in self.volumes.items()]

    def _moved(self, place: str, *, index: bool) -> str:
        """The same place as the build sees it; what is not a path stays as it is."""
        scheme = _FILE_URL if place.startswith(_FILE_URL) else ""
        path = PurePosixPath(place.removeprefix(scheme))
        if not path.is_absolute():
            return place
        mounted = _with_its_files(path) if index else path
        there = self.volumes.setdefault(str(mounted), f"{MOUNTED_AT}/{len(self.volumes)}")
        return scheme + str(PurePosixPath(there) / path.relative_to(mounted))


def _with_its_files(index: PurePosixPath) -> PurePosixPath:
    """An index's pages link to files beside it (../../files/…), so its parent is mounted too."""
    return index if index.parent == index.parent.parent else index.parent


def _options(config_list: str) -> Iterator[tuple[str, str]]:
    """Option and value per line, the environment's last, since they win."""
    lines = [line.partition("=") for line in config_list.splitlines() if "=" in line]
    for key, _, value in sorted(lines, key=lambda line: line[0].startswith(":env:")):
        yield key.rpartition(".")[2], str(ast.literal_eval(value))


@contextmanager
def written(settings: PipSettings, file: Path) -> Iterator[Path]:
    """The pip.conf while it is needed; an address in it may hold a password, so no one else's."""
    file.unlink(missing_ok=True)
    file.touch(mode=0o600)
    file.write_text(settings.text())
    try:
        yield file
    finally:
        file.unlink(missing_ok=True)
