"""Names of a model's tensors without those of wrappers around it.

The names are those of torch.distributed.checkpoint's ``get_model_state_dict``: no ``module.`` of
DDP, no ``_orig_mod.`` of torch.compile. That function itself is not used: it detaches the tensors,
and an optimizer's state is named by the identity of the parameters.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

from torch import nn

from resile.train.checkpoint.errors import UnsupportedState

__all__ = ["ModuleNames"]

_WRAPPERS = {
    "module": "DistributedDataParallel",
    "_orig_mod": "OptimizedModule",
    "_checkpoint_wrapped_module": "CheckpointWrapper",
}
"""The attribute in which a wrapper holds its module, and the wrapper's class."""


class ModuleNames:
    """The names of modules' tensors; cached, as they are needed at every snapshot."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[nn.Module, dict[str, str]] = WeakKeyDictionary()

    def tensors(self, module: nn.Module) -> dict[str, tuple[str, Any]]:
        """Map names without wrappers to the name for ``load_state_dict`` and the live tensor."""
        names = self._names(module)
        found = {}
        for raw, value in module.state_dict(keep_vars=True).items():
            name = names.get(raw)
            if name is None:
                name = names[raw] = _without_wrappers(module, raw)
            found[name] = (raw, value)
        return found

    def parameters(self, module: nn.Module) -> Iterator[tuple[int, str]]:
        """Yield each parameter's id and name; for a shared parameter the first name."""
        for raw, parameter in module.named_parameters():
            yield id(parameter), _without_wrappers(module, raw)

    def _names(self, module: nn.Module) -> dict[str, str]:
        if module not in self._known:
            _refuse_flat_parameters(module.modules())
            self._known[module] = {}
        return self._known[module]


def _without_wrappers(module: nn.Module, raw: str) -> str:
    if not any(f"{attribute}." in raw for attribute in _WRAPPERS):
        return raw
    kept = []
    here: Any = module
    for word in raw.split("."):
        wrapper = _WRAPPERS.get(word)
        if wrapper is None or wrapper not in {kind.__name__ for kind in type(here).__mro__}:
            kept.append(word)
        here = getattr(here, word, None)
    return ".".join(kept)


def _refuse_flat_parameters(modules: Iterable[nn.Module]) -> None:
    fsdp = sys.modules.get("torch.distributed.fsdp")
    if fsdp is not None and any(isinstance(m, fsdp.FullyShardedDataParallel) for m in modules):
        raise UnsupportedState(
            "FullyShardedDataParallel (FSDP1) is not supported; "
            "shard the model with torch.distributed.fsdp.fully_shard instead"
        )
