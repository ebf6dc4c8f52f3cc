"""The environment and the arguments of a worker, as torchrun's contract has them. Pure.

A script that runs under torchrun finds the same here. Our own variables start with RESILE_.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from string import Template

from resile.agent.nursery import WorkerCommand
from resile.group_name import GROUP_VARIABLE
from resile.wire.endpoint import is_loopback
from resile.wire.messages import RolePlace, Start


def node_environment(
    inherited: Mapping[str, str], *, nproc: int, address: str, master: str, group: str = ""
) -> dict[str, str]:
    """The environment that all workers of a node share in all rounds; the nursery imports with it.

    With several workers on a node each gets one OpenMP thread, as under torchrun, unless the user
    chose otherwise. Output is unbuffered, because the agent reads it through pipes. Large tensors
    get huge pages where the kernel has them: building a model and restoring it costs much less.
    """
    environment = {**inherited, "RESILE_MASTER": master}
    if group:
        environment[GROUP_VARIABLE] = group
    if nproc > 1:
        environment.setdefault("OMP_NUM_THREADS", "1")
    environment.setdefault("PYTHONUNBUFFERED", "1")
    environment.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    environment.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1")
    if sys.platform == "linux" and is_loopback(address):
        # All nodes are on this machine then: gloo need not listen on its network either.
        environment.setdefault("GLOO_SOCKET_IFNAME", "lo")
    return environment


def worker_environment(
    node: Mapping[str, str],
    start: Start,
    *,
    local_rank: int,
    nproc: int,
    run_id: str,
    role: str,
    error_file: Path,
    progress_socket: str,
    snapshots_socket: str,
    virtual_local_rank: bool = False,
) -> dict[str, str]:
    """The complete environment of one worker in one round."""
    rank = str(start.first_rank + local_rank)
    world = str(start.world_size)
    among = start.role_place or RolePlace(start.first_rank, start.world_size)
    environment = {
        **node,
        "LOCAL_RANK": "0" if virtual_local_rank else str(local_rank),
        "RANK": rank,
        "GROUP_RANK": str(start.group_rank),
        "ROLE_RANK": str(among.first_rank + local_rank),
        "ROLE_NAME": role,
        "LOCAL_WORLD_SIZE": str(nproc),
        "WORLD_SIZE": world,
        "GROUP_WORLD_SIZE": str(start.group_world_size),
        "ROLE_WORLD_SIZE": str(among.world_size),
        "MASTER_ADDR": start.store.host,
        "MASTER_PORT": str(start.store.port),
        "TORCHELASTIC_RESTART_COUNT": str(start.restart_count),
        "TORCHELASTIC_MAX_RESTARTS": str(start.max_restarts),
        "TORCHELASTIC_RUN_ID": run_id,
        "TORCHELASTIC_USE_AGENT_STORE": str(start.store.hosted),
        "TORCHELASTIC_ERROR_FILE": str(error_file),
        "RESILE_ROUND": str(start.round),
        "RESILE_RUN": start.run,
        "RESILE_PROGRESS_SOCKET": progress_socket,
        "RESILE_SNAPSHOTS": snapshots_socket,
    }
    if virtual_local_rank:
        environment["CUDA_VISIBLE_DEVICES"] = _nth_device(node, local_rank)
    return environment


def with_local_rank(command: WorkerCommand, local_rank: int) -> WorkerCommand:
    """The command of one worker; torchrun's macro ``${local_rank}`` in arguments is replaced."""
    if not any("$" in word for word in command.args):
        return command
    words = (Template(word).safe_substitute(local_rank=local_rank) for word in command.args)
    return replace(command, args=tuple(words))


def _nth_device(node: Mapping[str, str], local_rank: int) -> str:
    """The only device a worker sees, as number 0."""
    visible = [d for d in node.get("CUDA_VISIBLE_DEVICES", "").split(",") if d]
    return visible[local_rank] if local_rank < len(visible) else str(local_rank)
