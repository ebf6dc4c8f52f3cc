"""``resile completion``: the script that makes a shell complete commands and flags."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

__all__ = ["completion"]

VARIABLE = "_RESILE_COMPLETE"
"""The variable by which click's script asks the command for completions."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script for bash, zsh or fish that completes commands and flags.

    \b
    Put one of these into the shell's start-up file:
      eval "$(resile completion bash)"     # ~/.bashrc
      eval "$(resile completion zsh)"      # ~/.zshrc
      resile completion fish | source      # ~/.config/fish/config.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.ClickException(f"completion for {shell} is not supported by this click")
    click.echo(kind(ctx.find_root().command, {}, "resile", VARIABLE).source())
