"""A training loop whose second worker takes three times as long as the first for each step."""

import itertools
import os
import time

from resile import report

PAUSE = 0.2 * (1 + 2 * int(os.environ["LOCAL_RANK"]))
for step in itertools.count():
    report(step=step)
    time.sleep(PAUSE)
