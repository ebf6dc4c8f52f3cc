"""HTTP answers of masters and `resile up`, besides the view of a job (``job/view.py``).

Fields are only ever added, with defaults, so that an older reader understands a newer server and
a history written last year can still be shown.
"""

from __future__ import annotations

import msgspec

from resile.wire.bounds import Moment, Number

__all__ = ["EventView", "LogFile", "Refusal"]


class EventView(msgspec.Struct, frozen=True, kw_only=True):
    """An event, with its reason: ``GET /v1/events``."""

    seq: Number
    time: Moment
    """Unix time."""

    kind: str
    text: str
    node: Number | None = None
    round: Number = 0
    group: str = ""


class LogFile(msgspec.Struct, frozen=True, kw_only=True):
    """The log of one node."""

    node: str
    size: int


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a request that was not carried out, with the reason."""

    error: str
