"""Remove the cluster: no process, mount, bridge, rule, cgroup or file is left.

The cache stays. Every step is idempotent, and the state folder, which records what belongs to the
cluster, is removed last: after a `down` that was killed, call it again.
"""

import shutil

from devcluster import control_plane, node_life
from devcluster.cgroups import remove_group
from devcluster.daemons import stop_all
from devcluster.errors import ClusterError
from devcluster.firewall import clean_firewall
from devcluster.kernel import restore_kernel
from devcluster.layout import Layout
from devcluster.machine import check_machine
from devcluster.namespaces import mounts_below, remove_mount_points
from devcluster.network import remove_bridges
from devcluster.progress import Progress


def take_down(layout: Layout, *, progress: Progress) -> None:
    """Remove every trace of the cluster."""
    check_machine()
    members = layout.nodes()
    for node in members:
        node_life.lose(layout, node)
    if members:
        progress.reached(f"{', '.join(node.name for node in members)} ended with all containers")
    stop_all([*control_plane.clients(layout), *control_plane.foundation(layout)])
    progress.reached("control plane ended")
    remove_group("resile")
    remove_bridges()
    clean_firewall()
    restore_kernel(layout.kernel_settings)
    remove_mount_points()
    progress.reached("network and cgroups removed")
    _remove_state(layout)
    progress.reached("files removed")


def _remove_state(layout: Layout) -> None:
    if mounts := mounts_below(layout.state):  # Files in the mount would be removed, too.
        raise ClusterError(f"something is mounted in the cluster's folder: {mounts[0]}")
    shutil.rmtree(layout.removed, ignore_errors=True)
    if layout.state.exists():
        # In one step: a partial state would look like a cluster to repair.
        layout.state.rename(layout.removed)
        shutil.rmtree(layout.removed)
