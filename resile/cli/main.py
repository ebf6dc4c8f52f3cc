"""The ``resile`` command. Subcommands are imported when called, so ``run`` imports no other."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
from click.shell_completion import CompletionItem

from resile import __version__
from resile.cli.options.torchrun import AbbreviatingCommand, full_names
from resile.cli.options.types import verbosity_options
from resile.cli.output.suggestions import closest

COMMANDS = {
    "run": (
        "resile.cli.commands.run",
        "Run a script on this node, as torchrun does, and keep it training.",
    ),
    "up": ("resile.cli.commands.up", "Run a whole job, all its nodes, on this machine."),
    "submit": (
        "resile.cli.commands.submit",
        "Submit a job to a Kubernetes cluster and watch it start.",
    ),
    "jobs": (
        "resile.cli.commands.jobs",
        "List jobs on this machine and on a cluster, finished ones included.",
    ),
    "describe": (
        "resile.cli.commands.describe",
        "Show the details of a job: state, nodes, events and reasons.",
    ),
    "logs": ("resile.cli.commands.logs", "Print the logs of a job's nodes."),
    "events": ("resile.cli.commands.events", "Print the events of a job, with reasons."),
    "scale": ("resile.cli.commands.scale", "Change how many nodes a role has."),
    "suspend": ("resile.cli.commands.suspend", "Stop all nodes of a job, but keep the job."),
    "resume": ("resile.cli.commands.suspend", "Resume a suspended job."),
    "get": ("resile.cli.commands.get", "Print a job's manifest and status."),
    "data": ("resile.cli.commands.data", "Check that each sample was trained exactly once."),
    "delete": ("resile.cli.commands.delete", "Delete a job."),
    "token": ("resile.cli.commands.token", "Print a job's token, for tools that use its HTTP API."),
    "ckpt": ("resile.cli.commands.ckpt", "List, check, prune and export checkpoints."),
    "prestop": (
        "resile.cli.commands.pod_hooks",
        "preStop hook: save the training before a pod stops.",
    ),
    "poststart": ("resile.cli.commands.pod_hooks", "postStart hook: record when a pod started."),
    "master": ("resile.cli.commands.master", "Run a job's master on its own."),
    "operator": (
        "resile.cli.commands.operator",
        "Run the operator that reconciles ElasticJobs on Kubernetes.",
    ),
    "doctor": ("resile.cli.commands.doctor", "Check this machine and the cluster for problems."),
    "completion": (
        "resile.cli.commands.completion",
        "Print a shell completion script for bash, zsh or fish.",
    ),
}


INTERRUPTED = 130
"""The exit code after Ctrl-C, by the shell's convention 128 + SIGINT."""


class ShortUsageError(click.ClickException):
    """A usage error, shown as the problem and a hint at --help."""

    exit_code = 2

    def __init__(self, error: click.UsageError) -> None:
        super().__init__(error.format_message())
        self._command = error.ctx.command_path if error.ctx else "resile"

    def format_message(self) -> str:
        """Return the problem and the hint, as two lines."""
        return f"{self.message}\nTry '{self._command} --help' for help."


@contextmanager
def _short_errors() -> Iterator[None]:
    """Report usage errors without the usage text, and errors of the cluster without a traceback."""
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.NoSuchOption as error:
        raise ShortUsageError(click.UsageError(_no_such_flag(error), error.ctx)) from None
    except click.UsageError as error:
        raise ShortUsageError(error) from None
    except (click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except KeyboardInterrupt:
        # The shell's convention; click would exit with 1.
        raise click.exceptions.Exit(INTERRUPTED) from None
    except Exception as error:
        from resile.cli.output.explain import user_message

        sentence = user_message(error)
        if sentence is None:
            raise
        raise click.ClickException(sentence) from None


def _no_such_flag(error: click.NoSuchOption) -> str:
    given, command = error.option_name, error.ctx.command if error.ctx else None
    if isinstance(command, AbbreviatingCommand) and given.startswith("--"):
        meant = full_names(given, [p for p in command.params if not getattr(p, "hidden", False)])
        if len(meant) > 1:
            return f"'{given}' is ambiguous: it may be {', '.join(meant[:-1])} or {meant[-1]}."
    close = closest(given, _flags(error.ctx))
    hint = f" Did you mean '{close}'?" if close else ""
    return f"No such option '{given}'.{hint}"


def _flags(ctx: click.Context | None) -> list[str]:
    """Return all flags of a command, in the spelling that its help shows."""
    options = [p for p in ctx.command.params if isinstance(p, click.Option)] if ctx else []
    return [option.opts[0] for option in options if not option.hidden]


class LazyGroup(click.Group):
    """A group that knows its commands' names and first lines without importing them."""

    def make_context(self, *args: Any, **settings: Any) -> click.Context:
        """Parse the flags before the command's name."""
        with _short_errors():
            return super().make_context(*args, **settings)

    def invoke(self, ctx: click.Context) -> Any:
        """Parse the command's own flags and run it."""
        with _short_errors():
            return super().invoke(ctx)

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """Return all names, in the order in which a new user needs them."""
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        """Import and return a command."""
        if name not in COMMANDS:
            return None
        command = getattr(importlib.import_module(COMMANDS[name][0]), name)
        if not isinstance(command, click.Command):
            raise TypeError(f"{COMMANDS[name][0]}.{name} is not a command")
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return commands and flags that begin with ``incomplete``, without importing a command."""
        items = [
            CompletionItem(name, help=text)
            for name, (_, text) in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggest a close match for a mistyped command."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            close = closest(args[0], COMMANDS)
            hint = f" Did you mean '{close}'?" if close else ""
            ctx.fail(f"No such command '{args[0]}'.{hint}")
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="resile")
@verbosity_options
def cli() -> None:
    """Elastic, fault-tolerant distributed training: kill anything, and it keeps training.

    \b
    Examples:
      resile run --nproc-per-node 2 train.py --steps 300
      resile run --nnodes 1:4 --rdzv-endpoint 127.0.0.1:29400 train.py
      resile up job.yaml
      resile submit job.yaml -n team
    """


def main() -> None:
    """The console script."""
    cli(prog_name="resile")
