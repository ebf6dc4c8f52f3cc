"""torchrun's flags as click options, in both spellings and with their PET_* variables.

One table: a flag that means something here, or one that is accepted, said to be ignored, and why.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def torchrun_option(name: str, *short: str, **settings: Any) -> Callable[[F], F]:
    """``--a-b`` and ``--a_b`` and ``$PET_A_B`` for one option."""
    underscored = name.replace("-", "_")
    spellings = [f"--{name}", *([f"--{underscored}"] if underscored != name else []), *short]
    settings.setdefault("envvar", f"PET_{underscored.upper()}")
    return click.option(underscored, *spellings, **settings)


IGNORED: dict[str, str] = {
    "monitor-interval": "workers' ends are noticed at once, nothing is polled",
    "start-method": "workers are forked from the nursery, or started cold",
    "event-log-handler": "events are kept by the master: see 'resile events'",
    "logs-specs": "use --log-dir, --redirects and --tee",
    "numa-binding": "bind the agent with numactl; its workers inherit it",
    "signals-to-handle": "SIGTERM, SIGINT, SIGHUP and SIGQUIT are always handled",
    "duplicate-stdout-filters": "use --tee and grep",
    "duplicate-stderr-filters": "use --tee and grep",
}
"""torchrun's flags that have no meaning here, and what to tell who gives them."""


def ignored_options(function: F) -> F:
    """Accept every ignored flag, hidden from --help."""
    for name in IGNORED:
        function = torchrun_option(name, hidden=True, default=None)(function)
    return function


def given_but_ignored(values: dict[str, object]) -> list[str]:
    """A line for each ignored flag that was given."""
    return [
        f"--{name} is ignored: {why}"
        for name, why in IGNORED.items()
        if values.get(name.replace("-", "_")) is not None
    ]
