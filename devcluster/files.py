"""Atomic file writes."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml


def write(path: Path, content: str | bytes) -> None:
    """Replace a file atomically, readable by its owner only: many of the files contain keys."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    new.touch(mode=0o600)
    new.write_bytes(content.encode() if isinstance(content, str) else content)
    new.rename(path)


def write_yaml(path: Path, document: Mapping[str, Any]) -> None:
    write(path, yaml.safe_dump(document, sort_keys=False))


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    write(path, json.dumps(document, indent=2) + "\n")
