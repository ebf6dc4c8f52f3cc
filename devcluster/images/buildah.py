"""buildah with a separate store, so that the user's other images are not touched.

The store uses the kernel's overlay where that can be mounted; otherwise (for example in a container
whose own files are an overlay) plain copies, where every layer costs a copy of all below it. RUN
lines run in a chroot, which needs no container runtime and no separate network.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from devcluster.errors import BuildFailed
from devcluster.images.pip_settings import PipSettings
from devcluster.images.programs import logged, output

ISOLATION = {"BUILDAH_ISOLATION": "chroot"}


@dataclass(frozen=True)
class Context:
    """The inputs of a build besides its target."""

    folder: Path
    containerfile: Path
    pip: PipSettings
    pip_conf: Path


@dataclass(frozen=True)
class Buildah:
    """Calls buildah on one store."""

    root: Path
    driver: str
    log: Path

    @classmethod
    def on(cls, folder: Path, *, log: Path) -> "Buildah":
        """Create a store with the driver in STORAGE_DRIVER, or the best that works here."""
        chosen = os.environ.get("STORAGE_DRIVER")
        for driver in [chosen] if chosen else ["overlay", "vfs"]:
            store = cls(folder / driver, driver=driver, log=log)
            if store.ask("info") is not None:
                return store
        raise BuildFailed(
            f"buildah cannot keep images in {folder}: neither as overlay nor as copies"
        )

    def argv(self, *arguments: str) -> list[str]:
        """The complete command line."""
        # Its records of mounts must not outlive a reboot, so they are not in the cache.
        runtime = Path("/run") / f"resile-images-{_short(self.root)}"
        place = [f"--root={self.root}", f"--runroot={runtime}", f"--storage-driver={self.driver}"]
        return ["buildah", *place, *arguments]

    def run(self, *arguments: str) -> None:
        """Call buildah with its output in the log."""
        logged(self.argv(*arguments), log=self.log, extra=ISOLATION)

    def ask(self, *arguments: str) -> str | None:
        """Call buildah and return its output; None if it failed."""
        return output(self.argv(*arguments), extra=ISOLATION)

    def label(self, image: str, name: str) -> str | None:
        """A label of an image in the store; None if either is missing."""
        form = f'{{{{index .OCIv1.Config.Labels "{name}"}}}}'
        return self.ask("inspect", "--type=image", f"--format={form}", image) or None

    def import_tree(
        self, tree: Path, *, name: str, env: Mapping[str, str], labels: Mapping[str, str]
    ) -> None:
        """Create an image of one layer with the files of ``tree``."""
        container = self.ask("from", "scratch")
        if container is None:
            raise BuildFailed("buildah cannot begin an image")
        self.run("copy", "--quiet", container, str(tree), "/")
        settings = [f"--env={key}={value}" for key, value in env.items()]
        settings += [f"--label={key}={value}" for key, value in labels.items()]
        self.run("config", *settings, "--cmd=python3", container)
        self.run("commit", "--quiet", "--rm", container, name)

    def build(self, target: str, *, name: str, context: Context) -> None:
        """Build a target of the Containerfile, with layers from the store where possible."""
        self.run(*build_arguments(target, name=name, context=context))

    def push(self, image: str, destination: str, *, digest_file: Path) -> str:
        """Copy an image out of the store; return its manifest's digest."""
        digest = f"--digestfile={digest_file}"
        self.run("push", "--quiet", "--tls-verify=false", digest, image, destination)
        return digest_file.read_text().strip()

    def clear_leftovers(self) -> None:
        """Remove working containers of a killed build. Only safe under the build's lock."""
        self.run("rm", "--all")

    def prune(self) -> None:
        """Remove layers that no named image uses: each build leaves those of the previous one."""
        self.run("rmi", "--prune", "--force")

    def remove_all(self) -> None:
        """Remove every image of the store."""
        self.run("rmi", "--all", "--force")


def build_arguments(target: str, *, name: str, context: Context) -> Sequence[str]:
    """The arguments of buildah for a build; pure."""
    return [
        "bud",
        "--pull-never",
        "--layers",
        f"--secret=id=pip.conf,src={context.pip_conf}",
        *context.pip.volume_arguments(),
        f"--file={context.containerfile}",
        f"--target={target}",
        f"--tag={name}",
        str(context.folder),
    ]


def _short(path: Path) -> str:
    return hashlib.sha256(str(path).encode()).hexdigest()[:8]
