"""What a child that waits can do ahead: go through code that it will need in a hurry.

A module says what by a function named `__resile_rehearse__`, which leaves everything as it was.
Only modules that were imported ahead of the script are asked, so it is for libraries.
"""

import contextlib
import select
import sys
from types import ModuleType

from .line import Line

NAME = "__resile_rehearse__"


def rehearse_unless(line: Line) -> None:
    """Call every module's, one after the other, until there is something else to do."""
    # Their own dictionaries: to ask a lazy module for an attribute would import half of it. And not
    # everything among them is a module: None keeps one from being imported.
    modules = [one for one in list(sys.modules.values()) if isinstance(one, ModuleType)]
    found = [vars(module).get(NAME) for module in modules]
    orders = select.poll()
    orders.register(line, select.POLLIN)
    for deed in filter(callable, found):
        if orders.poll(0):
            return
        with contextlib.suppress(Exception):
            deed()
