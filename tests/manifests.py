"""Write jobs as manifests."""

from __future__ import annotations

from typing import Literal

import msgspec
import yaml

from resile.job.spec.job import ElasticJob


def dump_manifest(job: ElasticJob, format: Literal["yaml", "json"] = "yaml") -> str:
    """The manifest as text; ``parse_manifest`` gives the same job back."""
    data = msgspec.to_builtins(job)
    if format == "json":
        return msgspec.json.format(msgspec.json.encode(data), indent=2).decode() + "\n"
    text: str = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
    return text


class _Dumper(yaml.SafeDumper):
    """Quotes Unicode's line breaks, which PyYAML would write as they are and read as others."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if any(mark in text for mark in "\x85\u2028\u2029") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)
