"""A worker of a job with servers: queries all of them, and records each change of the responses.

A line has the id of its node, its rank and pid, each server's port and response by rank, and the
number of workers. Ends when the file $GATE_END exists.
"""

import json
import os
import socket
import sys
import time
from pathlib import Path

import resile
from resile.job.addresses import Addresses, NodeAddress

answers = Path(os.environ["ANSWERS"])
end = Path(os.environ["GATE_END"])


def ask(one: NodeAddress) -> str:
    """The response of a server; empty if there is none."""
    try:
        with socket.create_connection((one.host, one.ports["rpc"]), timeout=5) as line:
            return line.makefile().readline().strip()
    except OSError:
        return ""


def write(known: Addresses) -> None:
    assert known.own is not None, known
    said = {str(one.rank): [one.ports["rpc"], ask(one)] for one in known.of("ps")}
    line = json.dumps(
        {
            "node": int(os.environ["RESILE_NODE_ID"]),
            "rank": known.own.rank,
            "pid": os.getpid(),
            "servers": said,
            "workers": len(known.of("worker")),
        }
    )
    with open(answers, "a") as file:
        file.write(line + "\n")


assert "torch" not in sys.modules
known = resile.addresses()
write(known)
while not end.exists():
    newest = resile.addresses(after=known, wait=0.5)
    if newest != known or not answers.exists():
        known = newest
        write(known)
    time.sleep(0.01)
    if (Path(os.environ["ASK_AGAIN"])).exists():
        write(known)
        time.sleep(0.2)
