"""Records its rank in its world and in its role, then reports steps without end."""

import json
import os
import time

from resile import report

NAMES = ("RESILE_ROUND", "ROLE_NAME", "RANK", "WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE")
line = json.dumps([os.environ[name] for name in NAMES]) + "\n"
with open(os.environ["PLACES"], "a") as places:
    places.write(line)
step = 0
while True:
    step += 1
    report(step=step)
    time.sleep(0.02)
