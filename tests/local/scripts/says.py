"""Produces output in the way that its first argument names."""

import os
import sys
import time
from pathlib import Path

how, *words = sys.argv[1:]

if how == "flood":
    for number in range(300):
        print(number, "x" * 4000)
    Path(words[0]).write_text("said")
elif how == "turns":
    for number in range(50):
        print("out", number)
        print("err", number, file=sys.stderr)
elif how == "prompt":
    print("answered", input("continue? "))
elif how == "huge-stderr":
    os.ftruncate(2, 1 << 30)
    raise ValueError("the end of a gibibyte")
elif how == "tee":
    while True:
        print("x" * 1000)
        if Path(words[0]).exists():
            break
        time.sleep(0.01)
