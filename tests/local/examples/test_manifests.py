"""The examples' manifests can be parsed, and the files they name exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from resile.job.manifest.parse import parse_manifest
from resile.train.migrate.signals import CHECKPOINT_VARIABLE, SIGNAL_VARIABLE

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"


def options_of(script: Path) -> set[str]:
    """The flags that a script accepts."""
    return set(re.findall(r'"(--[a-z-]+)"', script.read_text()))


OURS = [path for path in EXAMPLES.rglob("*.yaml") if "kind: ElasticJob" in path.read_text()]


@pytest.mark.parametrize("path", sorted(OURS), ids=lambda path: str(path.relative_to(EXAMPLES)))
def test_every_manifest_is_sound(path: Path) -> None:
    job = parse_manifest(path.read_text())
    for role in job.spec.roles.values():
        assert role.script is not None
        script = ROOT / role.script
        flags = {word.partition("=")[0] for word in role.args if word.startswith("--")}
        assert flags <= options_of(script)


def test_the_digits_run_on_one_to_three_nodes() -> None:
    job = parse_manifest((EXAMPLES / "digits" / "job.yaml").read_text())
    assert job.metadata.name == "digits"
    (worker,) = job.spec.roles.values()
    assert (worker.replicas.min, worker.replicas.max) == (1, 3)


def test_every_pod_of_the_migration_has_both_hooks_and_the_volume() -> None:
    path = EXAMPLES / "migration" / "pods.yaml"
    claim, service, job = yaml.safe_load_all(path.read_text())
    assert [claim["kind"], service["kind"], job["kind"]] == [
        *("PersistentVolumeClaim", "Service", "Job")
    ]
    template = job["spec"]["template"]
    pod = template["spec"]
    (container,) = pod["containers"]
    assert template["metadata"]["labels"] == service["spec"]["selector"]
    assert pod["subdomain"] == service["metadata"]["name"]
    (volume,) = pod["volumes"]
    assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    (mount,) = container["volumeMounts"]
    assert mount["name"] == volume["name"]
    variables = {one["name"]: one["value"] for one in container["env"]}
    assert variables.keys() == {CHECKPOINT_VARIABLE, SIGNAL_VARIABLE}
    assert all(Path(value).parent == Path(mount["mountPath"]) for value in variables.values())
    assert hook(container, "postStart") == ["resile", "poststart"]
    *words, seconds = hook(container, "preStop")
    assert words == ["resile", "prestop", "--timeout"]
    assert int(seconds) < pod["terminationGracePeriodSeconds"]


def hook(container: dict[str, Any], name: str) -> list[str]:
    command: list[str] = container["lifecycle"][name]["exec"]["command"]
    return command
