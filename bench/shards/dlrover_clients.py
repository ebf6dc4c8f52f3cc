"""Clients of DLRover's master: a thread each, with a real client of its own.

Runs in DLRover's environment, where the bench is not installed. Each one does what DLRover's
sharding client does: it gets a task and reports its result, one call each. Prints
{"shards": count} of the window.
"""

import argparse
import json
import logging
import threading
import time

from dlrover.python.common.constants import NodeType  # type: ignore[import-not-found]
from dlrover.python.common.log import default_logger  # type: ignore[import-not-found]
from dlrover.python.elastic_agent.master_client import (  # type: ignore[import-not-found]
    GrpcMasterClient,
)

_DATASET = "bench"
_RECORDS, _BATCH, _BATCHES, _EPOCHS = 10_000_000, 100, 10, 1000


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("--clients", "--first", "--port"):
        parser.add_argument(name, type=int, required=True)
    for name in ("--begin", "--seconds"):
        parser.add_argument(name, type=float, required=True)
    options = parser.parse_args()
    default_logger.setLevel(logging.ERROR)
    address = f"127.0.0.1:{options.port}"
    numbers = range(options.first, options.first + options.clients)
    clients = [GrpcMasterClient(address, number, NodeType.WORKER) for number in numbers]
    for client in clients:
        _describe(client)
    if time.monotonic() > options.begin:
        raise RuntimeError("the clients were not ready when the window began")
    counts = [0] * len(clients)
    threads = [
        threading.Thread(target=_take, args=(client, counts, place, options.begin, options.seconds))
        for place, client in enumerate(clients)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps({"shards": sum(counts)}), flush=True)


def _describe(client: GrpcMasterClient) -> None:
    client.report_dataset_shard_params(
        batch_size=_BATCH,
        num_epochs=_EPOCHS,
        dataset_size=_RECORDS,
        shuffle=True,
        num_minibatches_per_shard=_BATCHES,
        dataset_name=_DATASET,
        storage_type="table",
    )


def _take(
    client: GrpcMasterClient, counts: list[int], place: int, begin: float, seconds: float
) -> None:
    """Count the shards taken in the window; the last one was requested within it."""
    time.sleep(max(0.0, begin - time.monotonic()))
    while time.monotonic() < begin + seconds:
        _, task = client.get_task(_DATASET)
        if task.shard.end <= task.shard.start:
            raise RuntimeError(f"no shard: {task}")
        client.report_task_result(_DATASET, task.task_id, "")
        counts[place] += 1


if __name__ == "__main__":
    main()
