"""The ``resile`` command. A subcommand is imported when called: ``run`` waits for no other."""

from __future__ import annotations

import importlib

import click

from resile import __version__

COMMANDS = {
    "run": ("resile.cli.run", "Run a script on this node, as torchrun does, and keep it training."),
    "master": ("resile.cli.master", "Run a job's master by hand."),
}


class LazyGroup(click.Group):
    """A group that knows its commands' names and first lines without importing them."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """All names, in the order a newcomer needs them."""
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        """Import a command now that it is needed."""
        if name not in COMMANDS:
            return None
        command = getattr(importlib.import_module(COMMANDS[name][0]), name)
        if not isinstance(command, click.Command):
            raise TypeError(f"{COMMANDS[name][0]}.{name} is no command")
        return command

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name a close match for a mistyped command."""
        import difflib

        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            close = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean '{close[0]}'?" if close else ""
            ctx.fail(f"No such command '{args[0]}'.{hint}")
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="resile")
def cli() -> None:
    """Elastic, fault-tolerant distributed training: kill anything, and it keeps training.

    \b
    Examples:
      resile run --nproc-per-node 2 train.py --epochs 3
      resile run --nnodes 1:4 --rdzv-endpoint 127.0.0.1:29400 train.py
    """


def main() -> None:
    """The console script."""
    cli(prog_name="resile")
