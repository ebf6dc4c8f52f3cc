"""The packages that may be preloaded for any script, because importing them is known to be inert.

Their import has the same result in every process and at every time: they leave nothing open, and
what they read of a worker's place or draw at random is either used later only or corrected in each
worker (see `preloading`). Every other package has to be observed first (see `observation`). Effects
of these packages are not attributed to the packages that import them either.
"""

import sys

_PACKAGES = frozenset(
    {
        "torch",
        "numpy",
        "resile",
        # Imported by torch. tqdm is known to look for TQDM_ among all variables.
        "dill",
        "functorch",
        "mpmath",
        "sympy",
        "torchgen",
        "tqdm",
        "typing_extensions",
        # Imported by resile.
        "msgspec",
        "xxhash",
    }
)

_PARTS_OF_RESILE = frozenset(
    {
        "resile.train.checkpoint.checkpointer",
        "resile.train.checkpoint.options",
        "resile.train.data",
        "resile.train.migrate.migrator",
        "resile.train.migrate.variable",
        "resile.train.progress",
    }
)
"""Parts that scripts import and that import nothing but trusted packages."""

_NOT_INERT = frozenset({"antigravity", "idlelib", "test", "this", "tkinter", "turtle"})
"""Parts of the standard library that print, open windows or are not libraries."""


def may_be_preloaded_at_once(module: str) -> bool:
    """Whether a module may be preloaded before it was observed.

    Of Resile these are the package itself and a few parts: others import optional packages, such as
    clients of object stores.
    """
    return is_trusted(module) and (not module.startswith("resile.") or module in _PARTS_OF_RESILE)


def is_trusted(module: str) -> bool:
    """Whether the effects of importing a module are ignored."""
    package = module.partition(".")[0]
    if package in _PACKAGES:
        return True
    return package in sys.stdlib_module_names and package not in _NOT_INERT
