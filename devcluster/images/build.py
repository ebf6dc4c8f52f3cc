"""Build images from the checkout and push them to the registry, skipping what is up to date.

In this order: the base (once per recipe), the stages with dependencies (once per change of
requirements), the images (once per change of source), the push, the removal of unused images.
An image is up to date if it was pushed from inputs of the same key and the registry still has
exactly that one. One build at a time: a lock on the folder makes others wait.
"""

import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from devcluster.images import base, registry
from devcluster.images.buildah import Buildah, Context
from devcluster.images.notes import Notes
from devcluster.images.pip_settings import PipSettings, written
from devcluster.images.programs import install_missing, output
from devcluster.images.recipe import (
    CONTAINERFILE,
    IMAGES,
    STAGES,
    Image,
    base_name,
    content_key,
    snapshot,
)
from devcluster.lock import exclusive

Say = Callable[[str], None]


@dataclass(frozen=True)
class Workshop:
    """The folder in which images are built, and the checkout they are built from."""

    checkout: Path
    folder: Path
    say: Say

    def push(self, host: str) -> None:
        """Bring the registry up to date."""
        registry.require(host)
        with self._locked() as (source, store):
            notes = Notes.read(store.root / "made.json")
            stale = [one for one in IMAGES if not _is_pushed(one, host, source, notes)]
            if not stale:
                self.say(f"up to date: {', '.join(one.remote(host) for one in IMAGES)}")
                return
            self._build(stale, source=source, store=store, notes=notes)
            for image in stale:
                remote = image.remote(host)
                digest = store.push(
                    image.local, f"docker://{remote}", digest_file=self.folder / "digest"
                )
                notes.note(remote, key=_key(image.inputs, source), digest=digest)
                self.say(f"pushed {remote}@{digest[:19]}")
            store.prune()
            self.say("done")

    def archive(self, into: Path, host: str) -> None:
        """Write each image as a docker-archive, under the name it would have in the registry."""
        with self._locked() as (source, store):
            notes = Notes.read(store.root / "made.json")
            self._build(IMAGES, source=source, store=store, notes=notes)
            into.mkdir(parents=True, exist_ok=True)
            for image in IMAGES:
                file = into / f"{image.name}.tar"
                # An existing archive cannot be modified.
                file.unlink(missing_ok=True)
                destination = f"docker-archive:{file}:{image.remote(host)}"
                store.push(image.local, destination, digest_file=self.folder / "digest")
                self.say(f"wrote {file}, {file.stat().st_size / 1e6:.0f} MB")
            store.prune()
            self.say("done")

    def forget(self) -> None:
        """Discard all builds, so that the next one uses the newest packages and base."""
        with self._locked() as (_, store):
            store.remove_all()
            (store.root / "made.json").unlink(missing_ok=True)
            self.say("discarded all earlier builds")

    def _build(
        self, images: Sequence[Image], *, source: Path, store: Buildah, notes: Notes
    ) -> None:
        """Build everything the images need, then the images."""
        containerfile = source / CONTAINERFILE
        name = base_name(containerfile.read_text())
        if not base.is_made(store, name=name):
            self.say(f"making the base {name}, about a minute")
            base.make(store, name=name, work=self.folder / "base")
        pip = PipSettings.of(output([sys.executable, "-m", "pip", "config", "list"]) or "")
        with written(pip, self.folder / "pip.conf") as pip_conf:
            context = Context(source, containerfile, pip=pip, pip_conf=pip_conf)
            self._build_stages(context, store=store, notes=notes)
            for image in images:
                self.say(f"building {image.name}")
                store.build(image.target, name=image.local, context=context)

    def _build_stages(self, context: Context, *, store: Buildah, notes: Notes) -> None:
        for stage in STAGES:
            key = _key(stage.inputs, context.folder)
            if not notes.says(stage.local, key=key, digest=""):
                self.say(f"building the stage {stage.target}")
                store.build(stage.target, name=stage.local, context=context)
                notes.note(stage.local, key=key, digest="")

    @contextmanager
    def _locked(self) -> Iterator[tuple[Path, Buildah]]:
        """Lock the folder; yield a copy of the inputs, and the store."""
        with exclusive(self.folder / "lock", waiting=lambda: self.say("waiting for another build")):
            install_missing()
            log = self.folder / "build.log"
            log.unlink(missing_ok=True)
            store = Buildah.on(self.folder / "store", log=log)
            store.clear_leftovers()
            source = snapshot(self.checkout, self.folder / "context")
            yield source, store
            shutil.rmtree(source)


def _key(inputs: Sequence[str], source: Path) -> str:
    return content_key(source, inputs, also=base.BASE.key)


def _is_pushed(image: Image, host: str, source: Path, notes: Notes) -> bool:
    """Whether the registry has the image that would be built."""
    remote = image.remote(host)
    digest = registry.digest_of(remote)
    return digest is not None and notes.says(remote, key=_key(image.inputs, source), digest=digest)
