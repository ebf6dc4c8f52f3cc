"""Serves ``import migration`` in workers when nobody else does.

It stands last among the import system's finders, so that a module of that name of the user's, or an
installed one, always wins. It is only a path: nothing is imported before a script asks.
"""

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

_NAME = "migration"
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(__file__))))
_FILE = os.path.join(_PACKAGE, "train", "migrate", "migration.py")


class Latecomer:
    """The finder."""

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if name != _NAME:
            return None
        from importlib.util import spec_from_file_location

        return spec_from_file_location(_NAME, _FILE)


def come_last() -> None:
    """Stand behind all finders there are."""
    sys.meta_path.append(Latecomer())
