"""A client that leases until all is done; records what it trained before it reports it."""

import os
import sys
import time
from pathlib import Path

from resile.train.data.sharded.shard_client import ShardClient

log = Path(sys.argv[1])
client = ShardClient("train", total=1000, shard_size=40, shuffle=True)
for shard in client:
    if os.environ.get("HOLD"):
        Path(f"{log}.holding").touch()
        time.sleep(3600)
    time.sleep(float(os.environ.get("PAUSE", "0")))
    with open(log, "a") as file:
        file.write(f"{shard.epoch} {shard.start} {shard.stop}\n")
client.close()
