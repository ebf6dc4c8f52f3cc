"""Allocates as many mebibytes as its argument says and keeps them until a file exists."""

import sys
import time
from pathlib import Path

memory = bytearray(int(sys.argv[1]) * 1024 * 1024)
for place in range(0, len(memory), 4096):
    memory[place] = 1
print(f"took {sys.argv[1]} MiB", flush=True)
while not Path(sys.argv[2]).exists():
    time.sleep(0.02)
