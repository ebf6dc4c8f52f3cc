"""Pass this machine's package index settings to pip inside a build, but not to the image.

The settings come from `pip config list`, which merges files and environment. Those that concern the
index go into a pip.conf for the build's secret. Folders and files named there are on this machine,
so they are mounted, under neutral names: an empty mount point remains in the image, and it should
not reveal the paths of this machine.
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
    """A pip.conf, and the volumes it needs: from the path here to the path in the build."""

    options: dict[str, str] = field(default_factory=dict)
    volumes: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, config_list: str) -> "PipSettings":
        """Parse the output of `pip config list`."""
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
        """The content of the pip.conf."""
        lines = [f"{option} = {value}" for option, value in sorted(self.options.items())]
        return "\n".join(["[global]", *lines, ""])

    def volume_arguments(self) -> list[str]:
        """The `--volume` arguments for buildah and podman."""
        return [f"--volume={here}:{there}:ro" for here, there in self.volumes.items()]

    def _moved(self, place: str, *, index: bool) -> str:
        """The path of the same place in the build; anything but an absolute path is unchanged."""
        scheme = _FILE_URL if place.startswith(_FILE_URL) else ""
        path = PurePosixPath(place.removeprefix(scheme))
        if not path.is_absolute():
            return place
        mounted = _with_its_files(path) if index else path
        there = self.volumes.setdefault(str(mounted), f"{MOUNTED_AT}/{len(self.volumes)}")
        return scheme + str(PurePosixPath(there) / path.relative_to(mounted))


def _with_its_files(index: PurePosixPath) -> PurePosixPath:
    """The folder to mount: an index's pages link to files beside it (../../files/…)."""
    return index if index.parent == index.parent.parent else index.parent


def _options(config_list: str) -> Iterator[tuple[str, str]]:
    """Yield option and value per line, the environment's last, since they take precedence."""
    lines = [line.partition("=") for line in config_list.splitlines() if "=" in line]
    for key, _, value in sorted(lines, key=lambda line: line[0].startswith(":env:")):
        yield key.rpartition(".")[2], str(ast.literal_eval(value))


@contextmanager
def written(settings: PipSettings, file: Path) -> Iterator[Path]:
    """Write the pip.conf while it is needed; private, since a URL in it may contain a password."""
    file.unlink(missing_ok=True)
    file.touch(mode=0o600)
    file.write_text(settings.text())
    try:
        yield file
    finally:
        file.unlink(missing_ok=True)
