"""Which environment variables may differ between the nursery and the workers forked from it.

Libraries read many variables while they are imported (thread counts, allocators, log levels), so
importing must happen with the values that the workers have. The variables that tell a worker its
place in the job are different for each and are read when the script asks for its place, not
before; those may differ. A worker with any other difference starts cold.
"""

from collections.abc import Mapping

_PLACE = frozenset(
    {
        "RANK",
        "LOCAL_RANK",
        "GROUP_RANK",
        "NODE_RANK",
        "ROLE_RANK",
        "ROLE_NAME",
        "WORLD_SIZE",
        "LOCAL_WORLD_SIZE",
        "GROUP_WORLD_SIZE",
        "ROLE_WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "TF_CONFIG",
        "CUDA_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
        "ZE_AFFINITY_MASK",
        "ASCEND_RT_VISIBLE_DEVICES",
    }
)
_PLACE_PREFIXES = ("TORCHELASTIC_", "RESILE_", "TORCH_NCCL_", "NCCL_")


def is_place(variable: str) -> bool:
    """Whether a variable tells a worker its place and may differ from worker to worker."""
    return variable in _PLACE or variable.startswith(_PLACE_PREFIXES)


def without_place(env: Mapping[str, str]) -> dict[str, str]:
    """Return the part of an environment that all workers of a node share."""
    return {name: value for name, value in env.items() if not is_place(name)}


def differences(nursery: Mapping[str, str], worker: Mapping[str, str]) -> list[str]:
    """Return the variables, in order of their names, that keep a worker from being warm."""
    names = {name for name in (*nursery, *worker) if not is_place(name)}
    return sorted(name for name in names if nursery.get(name) != worker.get(name))
