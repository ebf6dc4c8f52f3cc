"""Packages that may be imported ahead of any script, because importing them is known to be inert.

What they do at import is the same in every process and at every time: they open nothing that
stays open, and what they read of a worker's place or draw at random is either used later only or
put right in each worker (see `seeds`). Every other package has to be observed first (see
`observation`). The list also says whose effects are not held against a package that imports them.
"""

import sys

_PACKAGES = frozenset(
    {
        "torch",
        "numpy",
        "resile",
        # What torch imports. Of tqdm it is known that it looks for TQDM_ among all variables.
        "dill",
        "functorch",
        "mpmath",
        "sympy",
        "torchgen",
        "tqdm",
        "typing_extensions",
        # What resile imports.
        "msgspec",
        "xxhash",
    }
)

_PARTS_OF_RESILE = frozenset(
    {
        "resile.train.checkpoint.checkpointer",
        "resile.train.checkpoint.policy",
        "resile.train.data",
        "resile.train.migrate.migrator",
        "resile.train.migrate.variable",
        "resile.train.progress",
    }
)
"""Those that import nothing but trusted packages, and are imported by scripts."""

_NOT_INERT = frozenset({"antigravity", "idlelib", "test", "this", "tkinter", "turtle"})
"""Parts of the standard library that print, open windows or are no library at all."""


def may_be_preloaded_at_once(module: str) -> bool:
    """Whether a module may be preloaded before anybody has observed it.

    Of Resile the package itself and a few parts: others import what users have installed for them,
    such as clients of object stores.
    """
    return is_trusted(module) and (not module.startswith("resile.") or module in _PARTS_OF_RESILE)


def is_trusted(module: str) -> bool:
    """Whether what a module does when it is imported is not held against it."""
    package = module.partition(".")[0]
    if package in _PACKAGES:
        return True
    return package in sys.stdlib_module_names and package not in _NOT_INERT
