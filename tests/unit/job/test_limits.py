"""Any value in a manifest leads to a clear error that names the field, or to a job that can run."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resile.cli.commands.master import master as master_command
from resile.control.actions import StartNode
from resile.control.observed import Observed
from resile.control.reconcile import reconcile
from resile.job.errors import ManifestError
from resile.job.limits import (
    MAX_ARGUMENT_BYTES,
    MAX_INTEGER,
    MAX_MANIFEST_BYTES,
    MAX_NODES,
    MAX_PATH_BYTES,
)
from resile.job.manifest.parse import job_from_data, parse_manifest
from resile.job.manifest.pod_checks import kubernetes_problems
from resile.job.spec.job import ElasticJob
from resile.job.status import JobStatus
from resile.operator.build.master import build_master_pod, node_variables
from resile.operator.build.pods import build_node_pod
from tests.statuses import decode_status, encode_status
from tests.unit.cli.commands import parsed

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)

SOUND: dict[str, Any] = {
    "apiVersion": "resile.dev/v1alpha1",
    "kind": "ElasticJob",
    "metadata": {"name": "train", "namespace": "team", "labels": {"a": "b"}},
    "spec": {
        "replicas": 2,
        "maxRestarts": 3,
        "activeDeadlineSeconds": 60.0,
        "ttlSecondsAfterFinished": 60.0,
        "backoffLimit": 3,
        "backoff": {"baseSeconds": 1.0, "ceilingSeconds": 2.0, "resetSeconds": 3.0},
        "rendezvous": {
            "lastCallSeconds": 1.0,
            "joinTimeoutSeconds": 1.0,
            "leaseSeconds": 1.0,
            "connectionGraceSeconds": 1.0,
            "formingTimeoutSeconds": 1.0,
            "startTimeoutSeconds": 1.0,
            "handoverTimeoutSeconds": 1.0,
        },
        "success": {"roles": ["worker"]},
        "managedBy": "resile.dev/operator",
        "master": {
            "image": "m",
            "priorityClass": "p",
            "resources": {"limits": {"memory": "1Gi"}},
            "template": {"spec": {"hostNetwork": False, "tolerations": [{"key": "a"}]}},
        },
        "roles": {
            "worker": {
                "replicas": {"min": 1, "max": 4, "wanted": 2},
                "nodeUnit": 1,
                "script": "train.py",
                "args": ["--fast"],
                "procsPerNode": 2,
                "image": "i",
                "env": {"A": "b"},
                "workingDir": "/work",
                "resources": {"requests": {"cpu": 1}, "limits": {"memory": "1Gi"}},
                "restartBudget": {"perNode": 3, "perRole": 3},
                "exitCodes": [{"codes": [3], "action": "Fail"}],
                "memoryGrowth": {"factor": 2.0, "ceiling": "2Gi"},
                "terminationGracePeriodSeconds": 30.0,
                "priority": "high",
                "serviceAccount": "s",
                "imagePullSecrets": ["s"],
                "sharedMemory": "1Gi",
                "nodeSelector": {"a": "b"},
                "tolerations": [{"key": "a", "tolerationSeconds": 3}],
                "template": {"spec": {"containers": [{"name": "main"}], "priority": 3}},
            }
        },
    },
}


def places(data: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    below = (
        data.items()
        if isinstance(data, dict)
        else enumerate(data)
        if isinstance(data, list)
        else ()
    )
    return [path, *(place for key, value in below for place in places(value, (*path, key)))]


def nested(depth: int) -> Any:
    value: Any = {}
    for n in range(depth):
        value = {"a": value} if n % 2 else [value]
    return value


numbers = st.one_of(
    st.integers(),
    st.floats(),
    st.sampled_from(
        [
            *(0, -1, 0.01, 1e-308, 1e308, 2**31, 2**53, 2**63, 2**70, -(2**70), 10**5000),
            *(float("inf"), float("-inf"), float("nan"), MAX_NODES, MAX_NODES + 1),
        ]
    ),
)
texts = st.one_of(
    st.text(max_size=20),
    st.text(st.characters(categories=["Cs"]), min_size=1, max_size=3),
    st.sampled_from(["", "\0", "a\n", "\ud800", "9" * 5000, "1e999999999"]),
    st.sampled_from([1024, 1025, 4095, 4096, 5000, MAX_ARGUMENT_BYTES, 300_000]).map(
        lambda length: "x" * length
    ),
    st.sampled_from([200, 4000]).map(lambda length: "/é" * length),
)
nasty = st.one_of(
    numbers,
    texts,
    st.none(),
    st.booleans(),
    st.sampled_from([[], {}, [[]], {"": ""}, {"\ud800": 1}, {"a": "\ud800"}, {"a": 2**70}]),
    st.sampled_from([10, 63, 100, 2000]).map(nested),
    st.lists(st.text(max_size=3), max_size=3),
    st.just(["x"] * 2000),
    st.just({f"K{n}": "x" for n in range(2000)}),
)


@st.composite
def changed(draw: st.DrawFn) -> dict[str, Any]:
    data = copy.deepcopy(SOUND)
    for place in draw(st.lists(st.sampled_from(places(SOUND)[1:]), min_size=1, max_size=2)):
        target: Any = data
        try:
            for step in place[:-1]:
                target = target[step]
            target[place[-1]] = draw(nasty)
        except (KeyError, IndexError, TypeError):
            continue
    return data


def can_run(job: ElasticJob) -> None:
    """Check that nothing built from it, on this machine or on a cluster, fails."""
    master = build_master_pod(job, uid="u", image="i", serial=0, tls=True, after_round=7)
    _is_json(master)
    command = master["spec"]["containers"][0]["command"]
    assert command[:2] == ["resile", "master"]
    assert parsed(master_command, command[2:])["max_restarts"] == job.spec.max_restarts
    status = JobStatus()
    for look in range(3):
        decision = reconcile(job, status, Observed(), NOW + timedelta(seconds=60 * look))
        status = decode_status(encode_status(decision.status))
        for order in decision.actions:
            if isinstance(order, StartNode):
                environment = node_variables(job)[order.node.role]
                _is_json(build_node_pod(job, order, uid="u", environment=environment))
                for text in (*order.command, order.working_dir or "", *order.env.values()):
                    encoded = os.fsencode(text)
                    assert b"\0" not in encoded
                    assert len(encoded) <= MAX_ARGUMENT_BYTES
                assert len(os.fsencode(order.working_dir or "")) <= MAX_PATH_BYTES
    assert len(status.nodes) <= MAX_NODES


def _is_json(data: Any) -> None:
    msgspec.json.encode(data)
    for value in _values(data):
        assert not isinstance(value, int) or abs(value) <= MAX_INTEGER
        assert not isinstance(value, float) or value - value == 0


def _values(data: Any) -> list[Any]:
    if isinstance(data, dict):
        return [value for below in data.values() for value in _values(below)]
    if isinstance(data, list | tuple):
        return [value for below in data for value in _values(below)]
    return [data]


def judged(read: Callable[[], ElasticJob]) -> ElasticJob | ManifestError:
    try:
        return read()
    except ManifestError as error:
        return error


@settings(max_examples=300, deadline=None)
@given(changed())
def test_any_value_is_refused_by_name_or_can_run(data: dict[str, Any]) -> None:
    job = judged(lambda: job_from_data(data))
    if isinstance(job, ManifestError):
        assert all(problem.path for problem in job.problems)
        assert len(str(job).encode()) < 64 * 1024
        return
    assert len(msgspec.json.encode(job.spec)) <= MAX_MANIFEST_BYTES
    if not kubernetes_problems(job):
        can_run(job)


@settings(max_examples=60, deadline=None)
@given(changed())
def test_a_file_is_judged_as_the_data_in_it_is(data: dict[str, Any]) -> None:
    try:
        text = json.dumps(data)
    except (RecursionError, ValueError):
        return
    assert str(judged(lambda: parse_manifest(text))).encode()


@pytest.mark.parametrize(
    ("place", "value", "complaint"),
    [
        ("spec.rendezvous.leaseSeconds", 0.01, "a number of at least 0.1 and at most 86400"),
        ("spec.activeDeadlineSeconds", 1e308, "at most 315360000"),
        ("spec.maxRestarts", 2**70, "an integer of at least 0 and at most 1000000"),
        ("spec.roles.worker.replicas", 100_000, "at most 5000"),
        ("spec.roles.worker.replicas.max", 5001, "at most 5000"),
        ("spec.roles.worker.workingDir", "x" * 5000, "a text of at most 4095 characters"),
        ("spec.roles.worker.workingDir", "é" * 4000, "at most 4095 bytes, this one 8000"),
        ("spec.roles.worker.workingDir", "/" + "x" * 300, "each part of a path"),
        ("spec.roles.worker.env.A", "\ud800", "without NUL characters and lone surrogates"),
        ("spec.roles.worker.script", "a\0b", "without NUL characters"),
        ("metadata.name", "train\n", "lower-case letters"),
        ("spec.roles.worker.template.spec.priority", 2**70, "an integer of at most"),
        ("spec.roles.worker.template.spec.priority", "\udfff", "lone surrogate"),
        ("spec.roles.worker.template.spec.priority", nested(100), "nested deeper"),
        ("spec.roles.worker.args", ["x" * 100_000] * 3, "bytes long as JSON"),
    ],
)
def test_what_cannot_run_is_refused(place: str, value: Any, complaint: str) -> None:
    data = copy.deepcopy(SOUND)
    target = data
    *path, last = place.split(".")
    for step in path:
        target = target[step]
    target[last] = value
    with pytest.raises(ManifestError) as caught:
        job_from_data(data)
    assert complaint in str(caught.value)
    field = caught.value.problems[0].path
    assert place.startswith(field) or field.startswith(place)


def test_roles_that_are_too_many_nodes_only_together_are_refused() -> None:
    data = copy.deepcopy(SOUND)
    data["spec"]["roles"]["worker"]["replicas"] = 3000
    data["spec"]["roles"]["ps"] = {"replicas": 3000, "command": ["x"], "image": "i"}
    data["spec"].pop("replicas")
    with pytest.raises(ManifestError, match="6000 nodes together; a job has at most 5000"):
        job_from_data(data)


def test_what_kubectl_keeps_of_a_manifest_does_not_count() -> None:
    data = copy.deepcopy(SOUND)
    data["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied": "x" * 200_000}
    data["spec"]["roles"]["worker"]["args"] = ["x" * 100_000]
    assert job_from_data(data).metadata.annotations
