"""What a field of a message may hold, checked while it is decoded.

A peer that has the token may still be broken, or not what it says it is. What it sends is shown in
logs, put into other nodes' environments and added up, so every field has a size, and no text that
is meant to be one line can hold a line's end or move a terminal's cursor. The bounds are far above
anything honest: they are there for arithmetic and memory, not as a policy.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from resile.decoding import DecodeError, convert
from resile.job.limits import MOST_WORKERS

_ONE_LINE = r"\A[^\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]*\Z"
"""No control characters, no line ends of any kind, nothing that turns the direction of writing."""

_NO_SPACE = r"\A[^\s\x00-\x1f\x7f-\x9f]+\Z"

Number = Annotated[int, Meta(ge=0, le=2**53)]
"""An id, a rank, a round, a process id: never negative, and exact in JSON too."""

WorkerCount = Annotated[int, Meta(ge=1, le=MOST_WORKERS)]
Port = Annotated[int, Meta(ge=1, le=65535)]
ExitCode = Annotated[int, Meta(ge=-(2**31), le=2**32)]
"""Negative for signals; Windows' codes are unsigned."""

Age = Annotated[float, Meta(ge=0.0, le=1e9)]
"""Seconds in the past. Also keeps out what is no number, which no comparison can order."""

Moment = Annotated[float, Meta(ge=0.0, le=253_402_214_400.0)]
"""Unix time, up to the last that calendars know."""

Cores = Annotated[float, Meta(ge=0.0, le=1e6)]
Name = Annotated[str, Meta(min_length=1, max_length=255, pattern=_ONE_LINE)]
GroupName = Annotated[str, Meta(max_length=255, pattern=_ONE_LINE)]
"""Empty for the job's main group."""

Line = Annotated[str, Meta(max_length=1024, pattern=_ONE_LINE)]
Host = Annotated[str, Meta(max_length=255, pattern=_NO_SPACE)]
PathText = Annotated[str, Meta(max_length=8192)]
LastWords = Annotated[str, Meta(max_length=64 * 1024)]
"""A traceback: many lines, shown only to people and only in a report."""


def is_name(text: str) -> bool:
    """Whether a user's name for something can be told to others."""
    return _fits(text, Name)


def is_host(text: str) -> bool:
    """Whether a text may be a host's name or address."""
    return _fits(text, Host)


def _fits(text: str, kind: Any) -> bool:
    try:
        # Encoded, because a command line may hold bytes that are no text.
        convert(text.encode().decode(), kind)
    except (UnicodeEncodeError, DecodeError):
        return False
    return True
