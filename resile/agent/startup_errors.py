"""Recognizes exits which show that the script itself cannot run. Pure.

A script that cannot be compiled, or that imports a missing module, fails the same way each time: a
restart would only waste time. The evidence is Python's own: exit code 1, and a traceback (or the
error of ``python -m``) whose last line names the error.
"""

from __future__ import annotations

import re

__all__ = ["startup_error"]

UNCAUGHT = 1
"""Python's exit code after an uncaught exception."""

LONGEST_REASON = 500

_ERROR = re.compile(
    r"(SyntaxError|IndentationError|TabError|ImportError|ModuleNotFoundError)(: .*)?"
)
_NO_MODULE = re.compile(r"\S*python[\d.]*: (No module named .+|Error while finding module .+)")


def startup_error(exit_code: int, last_words: str) -> str:
    """The error that kept the script from running, in one line; empty for any other exit."""
    lines = [line for line in last_words.splitlines() if line.strip()]
    if exit_code != UNCAUGHT or not lines:
        return ""
    if _ERROR.fullmatch(lines[-1]):
        return _printable(lines[-1])
    if found := _NO_MODULE.fullmatch(lines[-1]):
        return _printable(found[1])
    return ""


def _printable(line: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in line)[:LONGEST_REASON]
