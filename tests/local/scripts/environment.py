"""Write this worker's environment and arguments to $REPORT/<rank>.json."""

import json
import os
import sys
from pathlib import Path

import torch  # noqa: F401 - a script of torch's is what torchrun is for

report = {"environment": dict(os.environ), "argv": sys.argv, "path0": sys.path[0]}
Path(os.environ["REPORT"], f"{os.environ['RANK']}.json").write_text(json.dumps(report))
print("to stdout from", os.environ["RANK"])
print("to stderr from", os.environ["RANK"], file=sys.stderr)
