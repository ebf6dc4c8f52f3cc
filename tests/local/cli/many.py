"""Run many commands in one process, for mistakes that are found before anything is started.

Reads a JSON list of argument lists and prints a JSON list of [exit code, stderr].
"""

from __future__ import annotations

import contextlib
import io
import json
import sys

from resile.cli.main import cli


def outcome(words: list[str]) -> tuple[object, str]:
    """The exit code and the errors of one command."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        try:
            cli(args=words, prog_name="resile")
        except SystemExit as end:
            return end.code, said.getvalue()
    return 0, said.getvalue()


if __name__ == "__main__":
    print(json.dumps([outcome(words) for words in json.load(sys.stdin)]))
