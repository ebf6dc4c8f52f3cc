"""Waits until the file named by its argument exists, then exits with the code in it."""

import sys
import time
from pathlib import Path

gate = Path(sys.argv[1])
print("waiting", flush=True)
while not gate.exists() or not gate.read_text():
    time.sleep(0.02)
code = int(gate.read_text())
print(f"leaving with {code}", flush=True)
sys.exit(code)
