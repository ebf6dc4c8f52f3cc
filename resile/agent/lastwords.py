"""The error file of a failed worker, and the text of its failure message.

Workers write the file themselves, so it may have any size and content: only a bounded part is read,
and a file that cannot be parsed counts as missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from resile.agent.logs import read_end
from resile.decoding import decode_python_json

__all__ = ["ErrorFile", "read_error_file", "sendable"]

LONGEST_ERROR_FILE = 1024 * 1024
"""Bytes. A real one holds a traceback; for a longer one the worker's output is used instead."""


@dataclass(frozen=True)
class ErrorFile:
    """An error file in the format of torch's ``record``; empty fields if there is none."""

    message: str = ""
    """For people: the traceback, or else the message."""

    content: str = ""
    """The file as the worker wrote it, for the process that started the agent."""


def read_error_file(path: Path) -> ErrorFile:
    """Read the error file of a worker."""
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
    """The end of ``text``, without lone surrogates: JSON may hold them, messages cannot."""
    return text[len(text) - min(len(text), longest) :].encode(errors="replace").decode()
