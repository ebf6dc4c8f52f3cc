"""An API server that checks permissions and logs every request."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.kube.apiserver import ApiServer, running

POLICY = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}


@contextmanager
def audited(folder: Path) -> Iterator[ApiServer]:
    """Run one during the block."""
    (folder / "policy.yaml").write_text(yaml.safe_dump(POLICY))
    flags = (
        *("--audit-policy-file", str(folder / "policy.yaml")),
        *("--audit-log-path", str(folder / "audit.log")),
    )
    with running(folder, authorization="RBAC", flags=flags) as server:
        yield server


def requests(server: ApiServer) -> list[dict[str, Any]]:
    """All requests in the audit log."""
    return [json.loads(line) for line in (server.folder / "audit.log").read_text().splitlines()]
