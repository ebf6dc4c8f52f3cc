"""Merges the bytes of several sources into one stream of lines with prefixes. Pure.

Bytes are not decoded and line ends are not changed. A carriage return is kept, so a progress bar
redraws its line, and the redrawn line has the prefix again. A line may be unfinished (a prompt);
if another source writes then, a newline is inserted between the two.
"""

from __future__ import annotations

__all__ = ["LineMerger", "LineSource", "whole_part"]

_LONGEST_CHARACTER = 4
"""Bytes of the longest character in UTF-8."""


class LineSource:
    """One writer to the stream.

    ``own_lines``: a newline is inserted between its output and an unfinished line of another
    source. Without it bytes are passed on unchanged, as if all wrote to one terminal.
    """

    def __init__(self, prefix: bytes = b"", *, own_lines: bool = True) -> None:
        self.prefix = prefix
        self.own_lines = own_lines
        self.fresh = True
        """Whether the next byte begins a line and needs the prefix."""

        self.after_return = False
        """Whether the last byte was a carriage return: a newline then belongs to the same line
        end."""


class LineMerger:
    """One stream that several sources write to."""

    def __init__(self) -> None:
        self._unfinished: LineSource | None = None

    def merge(self, source: LineSource, data: bytes) -> bytes:
        """Return the bytes to write when ``source`` writes ``data``."""
        if not data:
            return b""
        merged = self._separator(source) + (_prefixed(source, data) if source.prefix else data)
        if data.strip(b"\r"):
            self._unfinished = None if data.endswith(b"\n") else source
        return merged

    def _separator(self, source: LineSource) -> bytes:
        other = self._unfinished
        if other is None or other is source or not (source.own_lines or other.own_lines):
            return b""
        other.fresh, other.after_return = True, False
        return b"\n"


def _prefixed(source: LineSource, data: bytes) -> bytes:
    parts: list[bytes] = []
    if source.after_return and data.startswith(b"\n"):
        parts.append(b"\n")
        data = data[1:]
    for line in data.splitlines(keepends=True):
        if source.fresh and line != b"\r":
            parts.append(source.prefix)
        parts.append(line)
        source.fresh = line.endswith((b"\n", b"\r"))
    source.after_return = data.endswith(b"\r")
    return b"".join(parts)


def whole_part(data: bytes | bytearray) -> int:
    """How many bytes of ``data`` can be shown without cutting a UTF-8 character in two."""
    for back in range(1, min(_LONGEST_CHARACTER, len(data)) + 1):
        byte = data[-back]
        if byte < 0x80:
            break
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(data) - back if needed > back else len(data)
    return len(data)
