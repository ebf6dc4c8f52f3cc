"""Plain torchrun with a Resile master: the ``torchrun.handlers`` plugin.

``torchrun --rdzv-backend=resile --rdzv-endpoint=HOST:PORT ...`` finds :func:`create_handler` by its
entry point. torch loads every such entry point whenever its rendezvous package is imported, in
launchers and workers alike, and before that package is complete: so nothing is imported here until
a handler is requested.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.distributed.elastic.rendezvous import RendezvousHandler, RendezvousParameters


def create_handler() -> Callable[[RendezvousParameters], RendezvousHandler]:
    """Return the function that creates a handler, as the entry point must."""
    return _make_handler


def _make_handler(parameters: RendezvousParameters) -> RendezvousHandler:
    from resile.train.torchrun.handler import MasterRendezvous
    from resile.train.torchrun.settings import read_settings

    return MasterRendezvous(read_settings(parameters))
