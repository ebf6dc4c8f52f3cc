"""Kubernetes of another version: its flags, and that a cluster keeps its version."""

from pathlib import Path
from typing import Any

import pytest

from devcluster.control_plane import controller_manager, scheduler
from devcluster.errors import ClusterError
from devcluster.going_up import pods_can_use
from devcluster.layout import Layout
from devcluster.nodes import kubelet, kubelet_config
from devcluster.release import BINARIES, Release, parse_version, release_in, remember, remembered


def running(layout: Layout, version: str) -> Layout:
    """The layout of a cluster that was brought up with that version."""
    remember(Release(Path("/other"), version), layout.release_note)
    return layout


def folder_of(tmp_path: Path, version: str) -> Path:
    """Binaries that print their version."""
    folder = tmp_path / version
    folder.mkdir()
    for name in BINARIES:
        (folder / name).write_text(f"#!/bin/sh\necho Kubernetes v{version}\n")
        (folder / name).chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("version", "told"),
    [("1.20.2", True), ("1.23.17", True), ("1.24.0", False), ("1.34.11", False)],
)
def test_flags_that_newer_versions_refuse_are_left_away(
    tmp_path: Path, version: str, told: bool
) -> None:
    layout = running(Layout(tmp_path), version)
    for daemon in (scheduler(layout), controller_manager(layout)):
        assert ("--port" in daemon.argv) is told
    argv = kubelet(layout, layout.node(1)).argv
    assert ("--container-runtime" in argv) is told
    assert "--container-runtime-endpoint" in argv
    assert "/other/kubelet" in argv


@pytest.mark.parametrize(
    ("version", "told"), [("1.20.2", False), ("1.30.9", False), ("1.31.0", True)]
)
def test_a_kubelet_that_would_refuse_cgroup_version_1_is_told_to_take_it(
    tmp_path: Path, version: str, told: bool
) -> None:
    layout = running(Layout(tmp_path), version)
    assert ("failCgroupV1" in kubelet_config(layout, layout.node(1))) is told


@pytest.mark.parametrize(
    ("account", "version", "usable"),
    [
        (None, "1.20.2", False),
        (None, "1.34.11", False),
        ({"metadata": {}}, "1.20.2", False),
        ({"metadata": {}, "secrets": [{"name": "default-token"}]}, "1.20.2", True),
        ({"metadata": {}}, "1.24.0", True),
    ],
)
def test_an_account_is_waited_for_with_its_secret_where_it_gets_one(
    account: dict[str, Any] | None, version: str, usable: bool
) -> None:
    assert pods_can_use(account, release=Release(Path("/other"), version)) is usable


def test_a_folder_of_binaries_is_asked_for_its_version(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "1.34.11")
    assert release_in(folder) == Release(folder, "1.34.11")


def test_a_folder_that_lacks_a_binary_is_refused_by_its_name(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "1.34.11")
    (folder / "kubelet").unlink()
    with pytest.raises(ClusterError, match="lacks kubelet"):
        release_in(folder)


def test_a_binary_that_does_not_run_is_told(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "1.34.11")
    (folder / "kube-apiserver").write_bytes(b"\x7fELF of another architecture")
    with pytest.raises(ClusterError, match="does not run here"):
        release_in(folder)


def test_a_text_without_a_version_is_refused() -> None:
    assert parse_version("Kubernetes v1.31.0-rc.1\n") == "1.31.0-rc.1"
    with pytest.raises(ClusterError, match="no version"):
        parse_version("kube-apiserver, somehow\n")


def test_a_new_cluster_runs_what_is_built_and_one_that_is_up_what_it_was_brought_up_with(
    tmp_path: Path,
) -> None:
    layout = Layout(tmp_path)
    assert remembered(layout.release_note) is None
    assert layout.release == layout.built
    assert running(layout, "1.34.11").release == Release(Path("/other"), "1.34.11")


def test_a_cluster_that_is_up_does_not_change_its_version(tmp_path: Path) -> None:
    layout = running(Layout(tmp_path), "1.34.11")
    remember(layout.release, layout.release_note)
    with pytest.raises(
        ClusterError, match=r"runs Kubernetes 1\.34\.11 from /other; .*cluster-down"
    ):
        remember(layout.built, layout.release_note)
