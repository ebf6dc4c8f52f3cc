"""Simulated agents on torch's own rendezvous: a thread each, with a real DynamicRendezvousHandler.

The store runs in a separate process, as it would beside the first agent. All handlers live in this
process and share its interpreter, like the simulated agents of the other systems. A lost agent
looks to the others like a killed node: its keep-alives stop, and every survivor, whose workers have
failed, requests the next rendezvous at once. All timeouts are torch's defaults.

In favour of c10d two things are excluded, which real agents do in parallel on their own machines:
connecting (every TCPStore connection resolves a name) is not timed, and the walk up the Python
stack with which torch names the caller of every log record is disabled.

Prints one JSON line per fact: {"formed": seconds}, then {"reformed": seconds}.
"""

import argparse
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from torch.distributed import TCPStore
from torch.distributed.elastic.rendezvous import dynamic_rendezvous
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import DynamicRendezvousHandler

_HOST = "127.0.0.1"
# There are thousands of threads that do little: the default stack of 8 MB each is not needed.
_STACK = 512 * 1024
_STORE_TIMEOUT = timedelta(seconds=300)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--agents", type=int, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--serve", action="store_true", help="be the store, not the agents")
    options = parser.parse_args()
    if options.serve:
        _serve(options.port)
    else:
        _simulate(options.agents, port=options.port)


def _serve(port: int) -> None:
    store = TCPStore(_HOST, port, is_master=True, wait_for_workers=False, timeout=_STORE_TIMEOUT)
    threading.Event().wait()
    del store


def _simulate(agents: int, *, port: int) -> None:
    threading.stack_size(_STACK)
    dynamic_rendezvous.get_method_name = lambda *_, **__: "simulated"
    with ThreadPoolExecutor(max_workers=agents) as pool:
        handlers = list(pool.map(lambda _: _agent(agents, port=port), range(agents)))
        begun = time.monotonic()
        _rendezvous(pool, handlers)
        print(json.dumps({"formed": time.monotonic() - begun}), flush=True)
        lost, *survivors = handlers
        begun = time.monotonic()
        lost._stop_heartbeats()
        _rendezvous(pool, survivors)
        print(json.dumps({"reformed": time.monotonic() - begun}), flush=True)


def _agent(agents: int, *, port: int) -> DynamicRendezvousHandler:
    """An agent: its own connection and its own handler."""
    store = TCPStore(_HOST, port, is_master=False, timeout=_STORE_TIMEOUT)
    backend = C10dRendezvousBackend(store, "scale")
    return DynamicRendezvousHandler.from_backend(
        "scale", store, backend, min_nodes=agents - 1, max_nodes=agents, local_addr=_HOST
    )


def _rendezvous(pool: ThreadPoolExecutor, handlers: list[DynamicRendezvousHandler]) -> None:
    """Run all handlers' rendezvous at once; return when the last of them has the new round."""
    for done in [pool.submit(handler.next_rendezvous) for handler in handlers]:
        done.result()


if __name__ == "__main__":
    main()
