"""The pause image of every pod: a program that waits, from a few lines of C.

Its process holds the pod's namespaces. There is no registry to pull the usual one from, so it is
compiled here, linked statically, and written in the archive format of `docker save`.
"""

import hashlib
import io
import json
import tarfile
import tempfile
from pathlib import Path

from devcluster.commands import run
from devcluster.files import write
from devcluster.layout import PAUSE_IMAGE, Layout, Node
from devcluster.machine import architecture

# As the first process of a pod with a shared process namespace it also has to reap orphans.
_SOURCE = """\
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int number) { (void)number; _exit(0); }
static void bury(int number) { (void)number; while (waitpid(-1, 0, WNOHANG) > 0) {} }

int main(void) {
    signal(SIGINT, end);
    signal(SIGTERM, end);
    signal(SIGCHLD, bury);
    for (;;) pause();
}
"""


def ensure_pause_image(layout: Layout) -> None:
    """Compile the program and create the image, unless the cache has it."""
    if layout.pause_image.exists():
        return
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, "pause.c"), Path(folder, "pause")
        source.write_text(_SOURCE)
        run("gcc", "-Os", "-static", "-s", "-o", str(program), str(source))
        write(layout.pause_image, archive(PAUSE_IMAGE, program.read_bytes()))


def import_pause_image(layout: Layout, node: Node) -> None:
    """Import the image into a running containerd, unless it has it."""
    ctr = ("ctr", "--address", str(node.containerd_socket), "--namespace", "k8s.io", "images")
    if PAUSE_IMAGE not in run(*ctr, "list", "--quiet").split():
        run(*ctr, "import", str(layout.pause_image))


def archive(name: str, program: bytes) -> bytes:
    """An image whose only file is a program at /pause, as a docker archive."""
    layer = _tar({"pause": program})
    config = {
        "architecture": architecture(),
        "os": "linux",
        "config": {"Entrypoint": ["/pause"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    return _tar(
        {
            "config.json": json.dumps(config).encode(),
            "layer.tar": layer,
            "manifest.json": json.dumps(manifest).encode(),
        }
    )


def _tar(files: dict[str, bytes]) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755
            tar.addfile(entry, io.BytesIO(content))
    return target.getvalue()
