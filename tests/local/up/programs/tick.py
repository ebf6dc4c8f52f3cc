"""A training loop without a framework: reports a given number of steps."""

import os
import time

from resile import report

STEPS = int(os.environ.get("STEPS", "1000000"))
for step in range(STEPS):
    report(step=step, loss=1.0 / (step + 1), total=STEPS)
    print(f"step {step} of rank {os.environ['RANK']}", flush=True)
    time.sleep(float(os.environ.get("PAUSE", "0.05")))
