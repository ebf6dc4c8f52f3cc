"""Helm and kustomize without a cluster: the output of both ways to install."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.programs import HELM

DEPLOY = Path(__file__).parents[3] / "deploy"
CHART = DEPLOY / "helm" / "resile"
SYSTEM = "resile-system"

Object = dict[str, Any]
Objects = dict[tuple[str, str, str], Object]
"""By kind, namespace and name."""


class Refused(Exception):
    """Helm failed; the message is its error."""


def helm(*words: str, stdin: str = "", kubeconfig: str = os.devnull) -> str:
    """Run Helm and return its output; raises Refused on errors. No cluster unless given one."""
    done = subprocess.run(
        [HELM, *words],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "KUBECONFIG": kubeconfig},
    )
    if done.returncode != 0:
        raise Refused(done.stdout + done.stderr)
    return done.stdout


def rendered(values: Object | None = None, *, namespace: str = SYSTEM) -> Objects:
    """The objects that `helm install` would send, including the definition of ElasticJob."""
    words = ("template", "resile", str(CHART), "-n", namespace, "--include-crds", "-f", "-")
    return by_name(yaml.safe_load_all(helm(*words, stdin=json.dumps(values or {}))))


def kustomized(folder: Path) -> Objects:
    """The output of `kubectl kustomize` for a folder that only lists resources."""
    listing = yaml.safe_load((folder / "kustomization.yaml").read_text())
    assert set(listing) == {"apiVersion", "kind", "resources"}
    found: Objects = {}
    for name in listing["resources"]:
        path = folder / name
        if path.is_dir():
            found |= kustomized(path)
        else:
            found |= by_name(yaml.safe_load_all(path.read_text()))
    return found


def by_name(documents: Any) -> Objects:
    found: Objects = {}
    for one in documents:
        metadata = one["metadata"]
        key = (one["kind"], metadata.get("namespace", ""), metadata["name"])
        assert key not in found, f"twice: {key}"
        found[key] = one
    return found
