"""Installs in a cold Python worker the one finder that warm workers inherit.

It is started with the hook's folder at the front of PYTHONPATH, as a nursery is; the hook removes
it before the script can see it.
"""

import os
from collections.abc import MutableMapping

from .exit_report import VARIABLE, report_at_exit
from .latecomer import come_last

_HOOK = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "hook")


def show_hook(environ: MutableMapping[str, str]) -> None:
    """Let the interpreter that is about to start find the hook."""
    given = environ.get("PYTHONPATH")
    environ["PYTHONPATH"] = os.pathsep.join([_HOOK, given] if given else [_HOOK])
    environ["RESILE_NURSERY"] = "cold"


def begin(environ: MutableMapping[str, str]) -> None:
    """In the worker: remove the hook from PYTHONPATH, and install the finder."""
    rest = environ["PYTHONPATH"].partition(os.pathsep)[2]
    if rest:
        environ["PYTHONPATH"] = rest
    else:
        del environ["PYTHONPATH"]
    come_last(environ)
    if VARIABLE in environ:
        report_at_exit(environ)
