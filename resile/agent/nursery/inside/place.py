"""The environment variables that tell a worker its place in the job and differ per worker."""

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
