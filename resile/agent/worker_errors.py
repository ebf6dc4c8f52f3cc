"""The error of a failed worker: its error file, its message, and whether a restart could help.

Workers write the error file themselves, so it may have any size and content: only a bounded part is
read, and a file that cannot be parsed counts as missing.

A script that cannot be compiled, or that imports a missing module, fails the same way each time: a
restart would only waste time. The evidence is Python's own: exit code 1, and a traceback (or the
error of ``python -m``) whose last line names the error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from resile.agent.logs import read_end
from resile.decoding import decode_python_json

__all__ = [
    "ErrorFile",
    "message_end",
    "read_error_file",
    "startup_error",
]


UNCAUGHT = 1
"""Python's exit code after an uncaught exception."""

LONGEST_REASON = 500

_ERROR = re.compile(
    r"(SyntaxError|IndentationError|TabError|ImportError|ModuleNotFoundError)(: .*)?"
)
_NO_MODULE = re.compile(r"\S*python[\d.]*: (No module named .+|Error while finding module .+)")


def startup_error(exit_code: int, last_output: str) -> str:
    """The error that kept the script from running, in one line; empty for any other exit."""
    lines = [line for line in last_output.splitlines() if line.strip()]
    if exit_code != UNCAUGHT or not lines:
        return ""
    if _ERROR.fullmatch(lines[-1]):
        return _printable(lines[-1])
    if found := _NO_MODULE.fullmatch(lines[-1]):
        return _printable(found[1])
    return ""


def _printable(line: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in line)[:LONGEST_REASON]


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


def message_end(text: str, longest: int) -> str:
    """The end of ``text``, without lone surrogates: JSON may hold them, messages cannot."""
    return text[len(text) - min(len(text), longest) :].encode(errors="replace").decode()
