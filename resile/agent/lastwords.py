"""What a failed worker said: its error file, if it wrote one, and the end of its output.

Files are a worker's to write, so they may be of any size and hold anything: only a bounded part is
ever read, and what cannot be understood counts as nothing said.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from resile.agent.logs import read_end
from resile.decoding import decode_python_json

__all__ = ["ErrorFile", "read_error_file", "sendable"]

LONGEST_ERROR_FILE = 1024 * 1024
"""Bytes. A real one holds a traceback; of a longer one the worker's output has to do."""


@dataclass(frozen=True)
class ErrorFile:
    """A file in the format of torch's ``record``; both are empty if there is none."""

    message: str = ""
    """For people: the traceback, or else the message."""

    content: str = ""
    """The file as the worker wrote it, for whoever started the agent."""


def read_error_file(path: Path) -> ErrorFile:
    """What a worker recorded of its end."""
    content = read_end(path, LONGEST_ERROR_FILE + 1)
    if not content or len(content) > LONGEST_ERROR_FILE:
        return ErrorFile()
    try:
        message = decode_python_json(content)["message"]
        if isinstance(message, str):
            return ErrorFile(message, content.decode())
        words = str(message.get("extraInfo", {}).get("py_callstack") or message.get("message"))
        return ErrorFile(words, content.decode())
    except (ValueError, KeyError, TypeError, AttributeError):
        return ErrorFile()


def sendable(text: str, longest: int) -> str:
    """The end of ``text``. JSON may hold halves of characters, which no message can carry."""
    return text[len(text) - min(len(text), longest) :].encode(errors="replace").decode()
