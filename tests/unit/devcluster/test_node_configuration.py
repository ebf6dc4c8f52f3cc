"""The configuration of a node's containerd, network and kubelet."""

from pathlib import Path

import pytest

from devcluster.layout import Layout, Node
from devcluster.nodes import cni_config, containerd_config, kubelet, kubelet_config

tomllib = pytest.importorskip("tomllib", reason="a part of Python from 3.11 on")

LAYOUT = Layout(Path("/cache/with space"))


def node(index: int = 2) -> Node:
    return LAYOUT.node(index)


def test_nodes_have_letters_and_addresses_of_their_own() -> None:
    assert [node(index).name for index in (1, 2, 26)] == ["node-a", "node-b", "node-z"]
    for part in ("name", "bridge", "subnet", "address", "loopback", "cgroup", "folder", "network"):
        assert getattr(node(1), part) != getattr(node(2), part)


def test_containerd_keeps_everything_in_the_nodes_folder() -> None:
    config = tomllib.loads(containerd_config(node()))
    paths = [config["root"], config["state"], config["grpc"]["address"]]
    assert all(Path(path).is_relative_to(node().folder) for path in paths)


def test_containerd_starts_pods_on_a_machine_without_cap_sys_resource() -> None:
    cri = tomllib.loads(containerd_config(node()))["plugins"]["io.containerd.grpc.v1.cri"]
    assert cri["restrict_oom_score_adj"] is True
    assert cri["sandbox_image"] == "localhost/resile-pause:1"
    assert cri["cni"] == {"bin_dir": "/usr/lib/cni", "conf_dir": str(node().cni_config)}


def test_pods_are_on_the_nodes_bridge_and_leave_it_with_their_own_address() -> None:
    config = cni_config(node())
    (bridge,) = config["plugins"]
    assert (bridge["bridge"], bridge["ipMasq"]) == ("resile2", False)
    ((subnet,),) = bridge["ipam"]["ranges"]
    assert subnet == {"subnet": "10.88.2.0/24", "gateway": "10.88.2.1"}


def test_a_kubelet_listens_on_its_bridge_and_on_loopback_only() -> None:
    config = kubelet_config(LAYOUT, node())
    assert (config["address"], config["healthzBindAddress"]) == ("10.88.2.1", "127.88.2.1")
    assert config["readOnlyPort"] == 0


def test_a_kubelet_lets_in_only_whom_the_api_server_allows() -> None:
    config = kubelet_config(LAYOUT, node())
    assert config["authentication"]["anonymous"] == {"enabled": False}
    assert config["authorization"] == {"mode": "Webhook"}


def test_a_kubelet_runs_as_its_node_in_the_nodes_namespace() -> None:
    argv = kubelet(LAYOUT, node()).argv
    assert argv[:2] == ("/usr/bin/nsenter", f"--mount={node().folder}/namespace/mnt")
    assert argv[argv.index("--hostname-override") + 1] == "node-b"


def test_a_cluster_has_the_nodes_that_have_a_folder(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    assert layout.nodes() == []
    layout.node(1).folder.mkdir(parents=True)
    assert [one.name for one in layout.nodes()] == ["node-a"]
