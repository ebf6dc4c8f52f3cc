"""Abbreviated flags, as argparse (and so torchrun) takes them: ``--redirect`` for ``--redirects``.

torchrun's own flags are looked at first, so that an abbreviation which is unambiguous there stays
so here, whatever flags Resile adds to them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

__all__ = ["AbbreviatingCommand", "TorchrunOption", "full_names"]


class TorchrunOption(click.Option):
    """An option that torchrun has as well."""


class AbbreviatingCommand(click.Command):
    """A command whose long flags may be shortened as long as only one flag begins so."""

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
    """The flags that an abbreviation may stand for, in the spelling that the help shows."""
    beginning = abbreviated.lstrip("-").replace("_", "-")
    theirs: list[str] = []
    ours: list[str] = []
    for option in params:
        long_name = next((name for name in option.opts if name.startswith("--")), "")
        if beginning and long_name.removeprefix("--").startswith(beginning):
            (theirs if isinstance(option, TorchrunOption) else ours).append(long_name)
    return theirs or ours
