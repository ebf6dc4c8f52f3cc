"""The output of a nursery process: kept while it imports, logged afterwards."""

import asyncio
import contextlib
import logging
import os
from typing import IO

_log = logging.getLogger(__name__)

_READ_BYTES = 1 << 16


class Output:
    """Reads one of the process's streams at once, so that the process never blocks on it."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._loop = asyncio.get_running_loop()
        self._pipe = pipe
        self._kept = bytearray()
        self._keeping = True
        os.set_blocking(pipe.fileno(), False)
        self._loop.add_reader(pipe, self._read)

    def release(self) -> str:
        """Return the output so far and keep no more."""
        self._read_all()
        self._keeping = False
        text = self._kept.decode(errors="replace")
        self._kept.clear()
        return text

    def last_line(self) -> str:
        """Return the last line of the kept output."""
        self._read_all()
        lines = self._kept.decode(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else ""

    def close(self) -> None:
        if not self._pipe.closed:
            self._loop.remove_reader(self._pipe)
            self._pipe.close()

    def _read_all(self) -> None:
        while not self._pipe.closed and self._read():
            pass

    def _read(self) -> bool:
        """Read what is available; return whether there was anything."""
        data = b""
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._pipe.fileno(), _READ_BYTES)
            if not data:
                self.close()
        if self._keeping:
            self._kept += data
        elif data:
            _log.debug("nursery: %s", data.decode(errors="replace").rstrip())
        return bool(data)
