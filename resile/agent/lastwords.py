"""What a failed worker said: its error file, if it wrote one, and the end of its output.

Files are a worker's to write, so they may be of any size and hold anything: only a bounded part is
ever read, and what cannot be understood counts as nothing said.
"""

from __future__ import annotations

from pathlib import Path

from resile.agent.logs import read_end
from resile.decoding import decode_python_json

__all__ = ["message_of", "sendable"]

LONGEST_ERROR_FILE = 1024 * 1024
"""Bytes. A real one holds a traceback; of a longer one the worker's output has to do."""


def message_of(error_file: Path) -> str:
    """The message in an error file of torch's format; empty if there is none."""
    content = read_end(error_file, LONGEST_ERROR_FILE + 1)
    if not content or len(content) > LONGEST_ERROR_FILE:
        return ""
    try:
        message = decode_python_json(content)["message"]
        if isinstance(message, str):
            return message
        return str(message.get("extraInfo", {}).get("py_callstack") or message.get("message"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return ""


def sendable(text: str, longest: int) -> str:
    """The end of ``text``. JSON may hold halves of characters, which no message can carry."""
    return text[len(text) - min(len(text), longest) :].encode(errors="replace").decode()
