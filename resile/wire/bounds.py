"""Bounds of the fields of messages, checked while a message is decoded, and of HTTP answers.

A peer that has the token may still be faulty, or not what it claims to be. Its fields are shown in
logs, put into other nodes' environments and added up, so every field has a limit, and text that is
meant to be one line cannot contain a line break or move a terminal's cursor. The bounds are far
above any valid value: they protect arithmetic and memory, and are not a policy.

A master's HTTP answers contain what a job's own pods sent, so none is read without a limit, and
none is decompressed: a few kilobytes could stand for gigabytes. The limit grows with the job, so
that a small one cannot cost its client as much memory as the largest may.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from resile.decoding import DecodeError, convert
from resile.job.limits import MAX_NODES, MAX_WORKERS
from resile.wire.errors import WireError

_ONE_LINE = r"\A[^\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]*\Z"
"""No control characters, no line breaks of any kind, nothing that changes the text direction."""

_NO_SPACE = r"\A[^\s\x00-\x1f\x7f-\x9f]+\Z"

Number = Annotated[int, Meta(ge=0, le=2**53)]
"""An id, a rank, a round, a process id: never negative, and exact in JSON too."""

WorkerCount = Annotated[int, Meta(ge=1, le=MAX_WORKERS)]
Port = Annotated[int, Meta(ge=1, le=65535)]
ExitCode = Annotated[int, Meta(ge=-(2**31), le=2**32)]
"""Negative for signals; Windows' codes are unsigned."""

Age = Annotated[float, Meta(ge=0.0, le=1e9)]
"""Seconds in the past. Also excludes NaN, which no comparison can order."""

Moment = Annotated[float, Meta(ge=0.0, le=253_402_214_400.0)]
"""Unix time, up to the last that ``datetime`` supports."""

Cores = Annotated[float, Meta(ge=0.0, le=1e6)]
Name = Annotated[str, Meta(min_length=1, max_length=255, pattern=_ONE_LINE)]
GroupName = Annotated[str, Meta(max_length=255, pattern=_ONE_LINE)]
"""Empty for the job's main group."""

Line = Annotated[str, Meta(max_length=1024, pattern=_ONE_LINE)]
Host = Annotated[str, Meta(max_length=255, pattern=_NO_SPACE)]
PathText = Annotated[str, Meta(max_length=8192)]
ReportText = Annotated[str, Meta(max_length=64 * 1024)]
"""A traceback: many lines, shown only to people and only in a report."""


def is_name(text: str) -> bool:
    """Return whether a text is valid as a name in a message."""
    return _fits(text, Name)


def is_host(text: str) -> bool:
    """Return whether a text is valid as a host name or address."""
    return _fits(text, Host)


def _fits(text: str, kind: Any) -> bool:
    try:
        # Encoded, because a command line may contain bytes that are not text.
        convert(text.encode().decode(), kind)
    except (UnicodeEncodeError, DecodeError):
        return False
    return True


EMPTY_JOB = 512 * 1024
"""Bytes for everything but nodes: the report of a failure, up to a thousand events."""

EACH_NODE = 4 * 1024
"""Bytes for a node: the status from the controller and the master, some hundred bytes each."""


class TooLong(WireError):
    """An answer was longer than any of a job of that size, or compressed."""


def answer_limit(nodes: int) -> int:
    """Return the limit in bytes of an answer about a job of at most ``nodes`` nodes."""
    return EMPTY_JOB + EACH_NODE * min(nodes, MAX_NODES)


LARGEST_ANSWER = answer_limit(MAX_NODES)
