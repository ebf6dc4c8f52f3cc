"""Small functions for cgroups, addresses, images and nodes."""

import io
import json
import tarfile
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from devcluster.api import last_ready
from devcluster.cgroups import hierarchies
from devcluster.network import hardware_address
from devcluster.pause import archive

MOUNTS = """\
proc /proc proc rw 0 0
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0
"""


def test_the_two_versions_of_cgroups_are_told_apart() -> None:
    first = [Path("/sys/fs/cgroup/cpu,cpuacct"), Path("/sys/fs/cgroup/memory")]
    assert hierarchies(MOUNTS, "cgroup") == first
    assert hierarchies(MOUNTS, "cgroup2") == [Path("/sys/fs/cgroup/unified")]


def test_a_bridge_has_an_address_that_follows_from_its_ip() -> None:
    assert hardware_address("10.88.2.1") == "0a:58:0a:58:02:01"


def test_an_image_archive_holds_the_program_and_says_so() -> None:
    with tarfile.open(fileobj=io.BytesIO(archive("localhost/a:1", b"program"))) as image:
        files = {name: image.extractfile(name) for name in image.getnames()}
        contents = {name: file.read() for name, file in files.items() if file}
    (manifest,) = json.loads(contents["manifest.json"])
    assert manifest["RepoTags"] == ["localhost/a:1"]
    assert json.loads(contents[manifest["Config"]])["config"] == {"Entrypoint": ["/pause"]}
    with tarfile.open(fileobj=io.BytesIO(contents[manifest["Layers"][0]])) as layer:
        (entry,) = layer.getmembers()
    assert (entry.name, entry.size, entry.mode) == ("pause", 7, 0o755)


def condition(kind: str, status: str) -> dict[str, str]:
    return {"type": kind, "status": status, "lastHeartbeatTime": "2030-01-02T03:04:05Z"}


def test_a_ready_node_was_heard_of_at_a_time() -> None:
    node = {
        "status": {"conditions": [condition("PIDPressure", "False"), condition("Ready", "True")]}
    }
    assert last_ready(node) == datetime(2030, 1, 2, 3, 4, 5, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    "node",
    [
        {},
        {"status": {}},
        *({"status": {"conditions": [condition("Ready", word)]}} for word in ("False", "Unknown")),
    ],
)
def test_a_node_that_is_not_ready_has_no_such_time(node: dict[str, Any]) -> None:
    assert last_ready(node) is None
