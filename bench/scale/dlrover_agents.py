"""Simulated agents on DLRover's master: a thread each, with a real client of its own.

Runs in DLRover's environment, where the bench is not installed. Each simulated agent does what
DLRover's rendezvous handler does: it joins, then polls at the handler's own interval until it is
part of the world. A lost agent looks to the others like a killed node: it sends nothing more, and
every survivor, whose workers have failed, joins again at once. All timeouts are DLRover's defaults.

Prints one JSON line per fact: {"formed": seconds}, then {"reformed": seconds}.
"""

import argparse
import json
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from dlrover.python.common.constants import (  # type: ignore[import-not-found]
    JobConstant,
    NodeType,
    RendezvousName,
)
from dlrover.python.common.log import default_logger  # type: ignore[import-not-found]
from dlrover.python.elastic_agent.master_client import (  # type: ignore[import-not-found]
    GrpcMasterClient,
)

_STACK = 512 * 1024
_LAST_CALL, _UNIT, _JOIN = 60, 1, 600


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--agents", type=int, required=True)
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    default_logger.setLevel(logging.ERROR)
    threading.stack_size(_STACK)
    _simulate(options.agents, address=f"127.0.0.1:{options.port}")


def _simulate(agents: int, *, address: str) -> None:
    with ThreadPoolExecutor(max_workers=agents) as pool:
        begun = time.monotonic()
        first = GrpcMasterClient(address, 0, NodeType.WORKER)
        first.report_rdzv_params(agents - 1, agents, _LAST_CALL, _UNIT, _JOIN)
        clients = [first]
        clients += [GrpcMasterClient(address, n, NodeType.WORKER) for n in range(1, agents)]
        for done in [pool.submit(_rendezvous, client, n) for n, client in enumerate(clients)]:
            done.result()
        print(json.dumps({"formed": time.monotonic() - begun}), flush=True)
        begun = time.monotonic()
        survivors = range(agents - 1)
        for done in [pool.submit(_rendezvous, clients[n], n) for n in survivors]:
            done.result()
        print(json.dumps({"reformed": time.monotonic() - begun}), flush=True)


def _rendezvous(client: GrpcMasterClient, node: int) -> None:
    client.join_rendezvous(node, 1, rdzv_name=RendezvousName.TRAINING)
    while True:
        client.num_nodes_waiting(RendezvousName.NETWORK_CHECK)
        _, _, world = client.get_comm_world(RendezvousName.TRAINING, node)
        if node in world:
            return
        time.sleep(JobConstant.RENDEZVOUS_DEFAULT_INTERVAL)


if __name__ == "__main__":
    main()
