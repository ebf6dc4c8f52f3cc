"""The format of Resile's own log lines: short, timed, on stderr, distinct from workers' lines."""

from __future__ import annotations

import json as json_text
import logging
import os
import sys
from datetime import datetime, timezone

from resile.cli.options.types import LEVEL_VARIABLE


class _Format(logging.Formatter):
    """Formats as ``resile 12:03:04.567 message``, with the level's name when it matters."""

    def format(self, record: logging.LogRecord) -> str:
        stamp = f"{self.formatTime(record, '%H:%M:%S')}.{int(record.msecs):03d}"
        level = "" if record.levelno < logging.WARNING else f"{record.levelname.lower()}: "
        line = f"resile {stamp} {level}{record.getMessage()}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class _Json(logging.Formatter):
    """Formats as one JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, timezone.utc).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json_text.dumps(line)


def set_up_logging(*, json: bool = False, handler: logging.Handler | None = None) -> None:
    """Log INFO and above to stderr or ``handler``; RESILE_LOG=debug shows more, =warning less."""
    handler = handler or logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if json else _Format())
    logger = logging.getLogger("resile")
    logger.handlers[:] = [handler]
    logger.propagate = False
    wanted = os.environ.get(LEVEL_VARIABLE, "info").upper()
    known = isinstance(logging.getLevelName(wanted), int)
    logger.setLevel(wanted if known else logging.INFO)
