"""Implicit imports: modules that a library imports only when it is used.

They are predicted from the script's text at its very first start; afterwards the list is learned. A
wrong guess costs some memory and time in the nursery and does no harm.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from resile.homes import HOMES

from .inside.trusted import may_be_preloaded_at_once
from .scan import Scan


@dataclass(frozen=True)
class Companion:
    """If `library` is imported and one of `words` occurs in the text, `modules` are imported too.

    Without `words` they always are.
    """

    library: str
    words: frozenset[str]
    modules: tuple[str, ...]


COMPANIONS = (
    # torch/_compile.py imports torch._dynamo on the first call of a decorated function; the
    # constructor of every optimizer calls one (add_param_group). 820 modules, 1.1 s.
    Companion(
        "torch",
        frozenset({"optim", "DistributedDataParallel", "FullyShardedDataParallel", "fully_shard"}),
        ("torch._dynamo",),
    ),
    # `from resile import Checkpointer` imports a hundred modules: 0.2 s in each worker.
    *(
        Companion("resile", frozenset({name}), (home,))
        for name, home in HOMES.items()
        if may_be_preloaded_at_once(home)
    ),
)


def implicit_imports(scan: Scan, table: Iterable[Companion] = COMPANIONS) -> list[str]:
    """Return the modules that the table adds to a scan, in its order."""
    top_levels = {name.partition(".")[0] for name in scan.libraries}
    words = scan.words | {part for name in scan.libraries for part in name.split(".")}
    return [
        module
        for companion in table
        if companion.library in top_levels
        and (not companion.words or not companion.words.isdisjoint(words))
        for module in companion.modules
    ]
