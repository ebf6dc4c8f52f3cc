"""Prints, as JSON, all that a script can see of its process.

Run by the tests as a worker's script, in a fresh process and in a forked one: both have to print
the same. What must differ between any two processes is left out, or reduced to what is alike.
"""

import gc
import inspect
import io
import json
import linecache
import os
import pickle
import resource
import signal
import subprocess
import sys
import threading
import traceback
import warnings
from pathlib import Path
from typing import Any


class Pickled:
    """A class of the main module."""


variable: int = 3


def streams() -> dict[str, Any]:
    return {
        name: [
            stream.name,
            stream.mode,
            stream.encoding,
            stream.errors,
            stream.newlines,
            stream.line_buffering,
            stream.write_through,
            stream.fileno(),
            stream.isatty(),
            type(stream.buffer).__name__,
            stream is getattr(sys, f"__{name}__"),
            os.get_inheritable(stream.fileno()),
        ]
        for name, stream in (("stdin", sys.stdin), ("stdout", sys.stdout), ("stderr", sys.stderr))
        if isinstance(stream, io.TextIOWrapper)
    }


def signals() -> dict[str, str]:
    status = Path("/proc/self/status").read_text().splitlines()
    kept = ("SigBlk", "SigIgn", "SigCgt", "SigPnd")
    return {
        **{signal.Signals(n).name: repr(signal.getsignal(n))[:30] for n in (1, 2, 3, 13, 15, 17)},
        **{line.split()[0]: line.split()[1] for line in status if line.startswith(kept)},
    }


def descriptors() -> list[str]:
    """The open descriptors, without the one used to list them."""
    return sorted(entry.name for entry in Path("/proc/self/fd").iterdir())[:-1]


def main_module() -> dict[str, Any]:
    main = sys.modules["__main__"]
    return {
        "same": main.__dict__ is globals(),
        "names": sorted(name for name in vars(main) if name.startswith("__")),
        "file": __file__,
        "name": __name__,
        "package": __package__,
        "spec": getattr(__spec__, "name", None),
        "loader": type(globals()["__loader__"]).__name__,
        "builtins": type(__builtins__).__name__,
        "cached": globals().get("__cached__", "none"),
        "annotations": str(globals().get("__annotations__")),
        "doc": (__doc__ or "")[:20],
    }


def stack() -> list[str]:
    return [f"{frame.filename}:{frame.name}" for frame in traceback.extract_stack()]


def report() -> dict[str, Any]:
    frozen_before = gc.get_threshold()
    return {
        "argv": sys.argv,
        "orig_argv": sys.orig_argv,
        "path": sys.path,
        "flags": str(sys.flags),
        "xoptions": sorted(sys._xoptions),
        "warnoptions": sys.warnoptions,
        "filters": len(warnings.filters),
        "executable": [sys.executable, sys.prefix, sys.base_prefix],
        "environ": dict(os.environ),
        "getenv": subprocess.run(
            ["sh", "-c", "env"], capture_output=True, check=True
        ).stdout.decode(),
        "initial": Path("/proc/self/environ").read_text().split("\0"),
        "cwd": str(Path.cwd()),
        "cmdline": Path("/proc/self/cmdline").read_text(),
        "comm": Path("/proc/self/comm").read_text(),
        "oom": Path("/proc/self/oom_score_adj").read_text(),
        "umask": os.umask(0o22),
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "policy": os.sched_getscheduler(0),
        "affinity": sorted(os.sched_getaffinity(0)),
        "limits": resource.getrlimit(resource.RLIMIT_NOFILE),
        "leads": [os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid()],
        "descriptors": descriptors(),
        "main": main_module(),
        "streams": streams(),
        "signals": signals(),
        "threads": [threading.active_count(), len(list(Path("/proc/self/task").iterdir()))],
        "thread": [threading.current_thread().name, threading.main_thread().is_alive()],
        "stack": stack(),
        "gc": [gc.isenabled(), frozen_before, gc.get_debug()],
        "hooks": [sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__],
        "sitecustomize": "sitecustomize" in sys.modules,
        "ours": sorted(name for name in sys.modules if "resile" in name),
        "recursion": sys.getrecursionlimit(),
        "switch": sys.getswitchinterval(),
        "pickle": pickle.loads(pickle.dumps(Pickled())).__class__ is Pickled,
        "source": inspect.getsource(Pickled),
        "line": linecache.getline(__file__, 1),
        "profile": [sys.getprofile(), sys.gettrace()],
    }


if __name__ == "__main__":
    print(json.dumps(report()))
    sys.exit(7)
