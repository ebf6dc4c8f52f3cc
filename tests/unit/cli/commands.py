"""Parse command lines as the commands do, without running anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from resile.cli.options.rdzv import build_elasticity, parse_conf


def parsed(command: click.Command, words: Sequence[str]) -> dict[str, Any]:
    """A command's options, with sizes and patience read as well; raises click's UsageError."""
    found = command.make_context(command.name, list(words)).params
    found["elasticity"] = build_elasticity(
        found.get("nnodes") or "1",
        parse_conf(found.get("rdzv_conf") or ""),
        max_restarts=found["max_restarts"],
        node_unit=found.get("node_unit"),
    )
    return found
