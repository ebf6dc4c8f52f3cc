"""torchrun's flags as click options: both spellings, PET_* variables, and abbreviations.

Each flag has a meaning here, or is accepted and reported as ignored, with the reason.
docs/torchrun.md has the same table for users.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import click

from resile.agent.logs import DEFAULT_PREFIX
from resile.cli.options.types import SECONDS


class TorchrunOption(click.Option):
    """An option that torchrun has as well."""


class AbbreviatingCommand(click.Command):
    """A command whose long flags may be abbreviated to any unambiguous prefix."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Parse the flags with abbreviations."""
        extra["token_normalize_func"] = self._expanded
        return super().make_context(info_name, args, parent, **extra)

    def _expanded(self, name: str) -> str:
        if any(name == known.lstrip("-") for param in self.params for known in param.opts):
            return name
        matches = full_names(name, self.params)
        return matches[0].removeprefix("--") if len(matches) == 1 else name


def full_names(abbreviated: str, params: Iterable[click.Parameter]) -> list[str]:
    """Return the flags that an abbreviation may stand for, in the spelling that the help shows."""
    beginning = abbreviated.lstrip("-").replace("_", "-")
    theirs: list[str] = []
    ours: list[str] = []
    for option in params:
        long_name = next((name for name in option.opts if name.startswith("--")), "")
        if beginning and long_name.removeprefix("--").startswith(beginning):
            (theirs if isinstance(option, TorchrunOption) else ours).append(long_name)
    return theirs or ours


F = TypeVar("F", bound=Callable[..., Any])


def torchrun_option(name: str, *short: str, **settings: Any) -> Callable[[F], F]:
    """Return an option that is ``--a-b``, ``--a_b`` and ``$PET_A_B``."""
    underscored = name.replace("-", "_")
    spellings = [f"--{name}", *([f"--{underscored}"] if underscored != name else []), *short]
    settings.setdefault("envvar", f"PET_{underscored.upper()}")
    settings.setdefault("cls", TorchrunOption)
    return click.option(underscored, *spellings, **settings)


IGNORED: dict[str, str] = {
    "monitor-interval": "exits of workers are noticed at once, nothing is polled",
    "start-method": "workers are forked from the nursery, or started cold",
    "numa-binding": "bind the agent with numactl; its workers inherit it",
    "duplicate-stdout-filters": "use --tee and grep",
    "duplicate-stderr-filters": "use --tee and grep",
}
"""torchrun's flags that have no meaning here, each with the reason that is logged."""

IGNORED_VARIABLES: dict[str, str] = {
    "TORCHELASTIC_ENABLE_FILE_TIMER": "there is no watchdog of timers; see start_timeout",
    "TORCHELASTIC_HEALTH_CHECK_PORT": "the master answers /healthz",
    "TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT": "workers are not watched for it",
}
"""Variables of torchrun's agent that have no meaning here."""

_TYPES: dict[str, Any] = {
    "monitor-interval": SECONDS,
    "start-method": click.Choice(["spawn", "fork", "forkserver"]),
    "numa-binding": click.Choice(["node", "socket", "exclusive", "core-complex"]),
}
"""Types of the ignored flags, so that values torchrun refuses are refused here, too."""

EVENT_HANDLERS = ("null", "console", "dynamic_rendezvous")
"""torch's registered event handlers; the last one drops events, as ``null`` does."""

LOGS_SPECS_GROUP = "torchrun.logs_specs"
DEFAULT_LOGS_SPECS = "default"

SHELLS = ("bash", "zsh", "fish")

SIGNALS_VARIABLE = "TORCHELASTIC_SIGNALS_TO_HANDLE"
"""The variable that torch's own process starters read."""

DEFAULT_SIGNALS = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"


def print_completion(ctx: click.Context, _option: click.Parameter, shell: str | None) -> None:
    """Print the completion script of the whole command line for ``shell``, and exit."""
    if shell is None:
        return
    from resile.cli.commands.completion import completion

    ctx.invoke(completion, shell=shell)
    ctx.exit()


def ignored_options(function: F) -> F:
    """Accept every ignored flag, hidden from --help."""
    for name in IGNORED:
        function = torchrun_option(name, hidden=True, default=None, type=_TYPES.get(name))(function)
    return function


def given_but_ignored(values: dict[str, object], environment: Mapping[str, str]) -> list[str]:
    """Return a line for each ignored flag or variable that was given."""
    flags = [
        f"--{name} is ignored: {why}"
        for name, why in IGNORED.items()
        if values.get(name.replace("-", "_")) is not None
    ]
    variables = [
        f"${name} is ignored: {why}"
        for name, why in IGNORED_VARIABLES.items()
        if environment.get(name, "0") != "0"
    ]
    return flags + variables


def read_signals(text: str) -> tuple[signal.Signals, ...]:
    """Parse ``SIGTERM,SIGUSR1`` into signals that a process can handle."""
    return tuple(_read_signal(name.strip(), text) for name in text.split(",") if name.strip())


def _read_signal(name: str, text: str) -> signal.Signals:
    found = signal.Signals.__members__.get(name)
    if found is None:
        raise click.UsageError(
            f"--signals-to-handle {text}: there is no signal '{name}'; "
            f"write names such as {DEFAULT_SIGNALS}"
        )
    if found in (signal.SIGKILL, signal.SIGSTOP):
        raise click.UsageError(f"--signals-to-handle {text}: no process can handle {name}")
    return found


def check_logs_specs(name: str | None) -> str:
    """Refuse a name that is not registered; return a warning for one that is not torch's own."""
    if name is None or name == DEFAULT_LOGS_SPECS:
        return ""
    from importlib import metadata

    names = sorted(entry.name for entry in metadata.entry_points(group=LOGS_SPECS_GROUP))
    if name not in names:
        known = ", ".join(sorted({DEFAULT_LOGS_SPECS, *names}))
        raise click.UsageError(
            f"--logs-specs {name}: no installed package registers it ({LOGS_SPECS_GROUP}); "
            f"known are {known}"
        )
    return f"--logs-specs {name} is ignored: use --log-dir, --redirects and --tee"


def prefix_template(flag: str | None) -> str:
    """Return the prefix of console lines: the flag's, which may be empty, or the variable's."""
    if flag is not None:
        return flag
    return os.environ.get("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE") or DEFAULT_PREFIX
