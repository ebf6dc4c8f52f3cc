"""Records each signal it gets, and saves for longer than a second on a request to end."""

import os
import signal
import sys
import time
from pathlib import Path

folder, how = Path(sys.argv[1]), sys.argv[2]
rank = os.environ["RANK"]


def note(text: str) -> None:
    with (folder / f"rank{rank}").open("a") as file:
        file.write(f"{text}\n")


def handle(number: int, _frame: object) -> None:
    note(f"got {signal.Signals(number).name}")
    time.sleep(1.5)
    note("saved")
    sys.exit(0)


if os.environ["RESILE_ROUND"] != "1":
    sys.exit(0)
if how == "fails" and rank == "1":
    while "waits" not in (folder / "rank0").read_text() if (folder / "rank0").exists() else True:
        time.sleep(0.01)
    sys.exit(3)
if how == "ignores":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
if how != "plain":
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1):
        signal.signal(number, handle)
note("waits")
try:
    time.sleep(600)
except KeyboardInterrupt:
    note("got SIGINT")
finally:
    time.sleep(0.2)
    note("finally")
