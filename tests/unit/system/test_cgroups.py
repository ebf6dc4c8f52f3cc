"""Finding this process's cgroups from the kernel's files."""

from __future__ import annotations

from pathlib import Path

from resile.system.cgroups import Hierarchy, Version, locate, locate_visible

V1_MOUNTS = """\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
V1_PLACES = "9:name=systemd:/\n4:memory:/jobs/7\n1:cpu,cpuacct:/\n0::/other\n"


def test_version_1_has_a_hierarchy_for_each_controller() -> None:
    memory = locate("memory", mountinfo=V1_MOUNTS, membership=V1_PLACES)
    root = Path("/sys/fs/cgroup")
    assert memory == Hierarchy(Version.V1, root / "memory", root / "memory/jobs/7")
    cpu = locate("cpu", mountinfo=V1_MOUNTS, membership=V1_PLACES)
    assert cpu == Hierarchy(Version.V1, root / "cpu,cpuacct", root / "cpu,cpuacct")


def test_a_controller_without_a_hierarchy_of_its_own_is_looked_for_in_version_2() -> None:
    found = locate("hugetlb", mountinfo=V1_MOUNTS, membership=V1_PLACES)
    mount = Path("/sys/fs/cgroup/unified")
    assert found == Hierarchy(Version.V2, mount, mount / "other")


def test_version_2_has_one_for_all() -> None:
    mounts = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
    places = "0::/user.slice/user-1000.slice/session.scope\n"
    found = locate("memory", mountinfo=mounts, membership=places)
    root = Path("/sys/fs/cgroup")
    assert found == Hierarchy(Version.V2, root, root / "user.slice/user-1000.slice/session.scope")


def test_a_container_that_sees_only_its_own_part_finds_itself() -> None:
    mounts = "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
    found = locate("memory", mountinfo=mounts, membership="4:memory:/docker/abc/inner\n")
    assert found is not None
    assert found.own == Path("/sys/fs/cgroup/memory/inner")


def test_a_part_of_the_tree_that_cannot_be_seen_is_not_guessed_at() -> None:
    mounts = "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
    assert locate("memory", mountinfo=mounts, membership="4:memory:/docker/xyz\n") is None


def test_a_machine_without_cgroups_has_none() -> None:
    assert locate("memory", mountinfo="", membership="") is None


def test_the_way_up_ends_at_the_mount() -> None:
    mount = Path("/sys/fs/cgroup")
    places = list(Hierarchy(Version.V2, mount, mount / "a/b").upwards())
    assert places == [mount / "a/b", mount / "a", mount]


def test_at_the_top_of_what_can_be_seen_counts_for_what_lies_above() -> None:
    mounts = "30 23 0:26 /pods/one /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n"
    top = Path("/sys/fs/cgroup")
    below = locate_visible("memory", mountinfo=mounts, membership="0::/pods/one/sub\n")
    assert below == Hierarchy(Version.V2, top, top / "sub")
    elsewhere = locate_visible("memory", mountinfo=mounts, membership="0::/\n")
    assert elsewhere == Hierarchy(Version.V2, top, top)
    assert locate_visible("memory", mountinfo="", membership="0::/\n") is None
