"""Warm-up hooks: a waiting child runs code ahead that it will later need quickly.

A module defines its hook as a function named `__resile_rehearse__`, which must leave everything as
it was. Only the hooks of preloaded modules are called, so they are for libraries.
"""

import contextlib
import select
import sys
from types import ModuleType

from .line import Line

NAME = "__resile_rehearse__"


def rehearse_unless(line: Line) -> None:
    """Call the hooks of all modules, one after the other, until a task arrives on `line`."""
    # Read from the modules' dictionaries: an attribute access on a lazy module would import half of
    # it. Not every value is a module: None blocks the import of one.
    modules = [one for one in list(sys.modules.values()) if isinstance(one, ModuleType)]
    found = [vars(module).get(NAME) for module in modules]
    orders = select.poll()
    orders.register(line, select.POLLIN)
    for deed in filter(callable, found):
        if orders.poll(0):
            return
        with contextlib.suppress(Exception):
            deed()
