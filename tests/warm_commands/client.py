"""The client: passes its streams, environment and folder to the server, and exits accordingly.

Run with `-I -S`, as it replaces a command that should start instantly.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys

FORWARDED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)


def main() -> None:
    address, *words = sys.argv[1:]
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(address)
        cwd = os.getcwd()  # noqa: PTH109 - pathlib alone would take longer than all of this
        request = {"words": words, "env": dict(os.environ), "cwd": cwd}
        text = json.dumps(request).encode()
        socket.send_fds(line, [len(text).to_bytes(4, "big")], [0, 1, 2])
        line.sendall(text)
        answers = line.makefile()
        pid = int(answers.readline())
        for number in FORWARDED:
            signal.signal(number, lambda number, _: os.kill(pid, number))
        code = int(answers.readline())
    if code >= 0:
        os._exit(code)
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)


if __name__ == "__main__":
    main()
