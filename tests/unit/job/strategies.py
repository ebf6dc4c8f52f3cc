"""Arbitrary valid jobs, in every notation that a manifest allows."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st

from resile.job.spec.cluster import GangPolicy, MasterSpec, MasterStorage
from resile.job.spec.job import (
    BackoffSpec,
    CleanPolicy,
    ElasticJob,
    JobSpec,
    Metadata,
    RendezvousSpec,
    SuccessSpec,
)
from resile.job.spec.role import (
    CodeRange,
    EnvVar,
    ExitAction,
    ExitRule,
    MemoryGrowth,
    Replicas,
    ResourceSpec,
    RestartBudget,
    RestartPolicy,
    RoleSpec,
)

labels = st.from_regex(r"[a-z]([-a-z0-9]{0,8}[a-z0-9])?", fullmatch=True)
texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=20)
words = texts.filter(bool)
env_names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
amounts = st.sampled_from([1, 2, 0.5, "250m", "1", "4Gi", "512Mi", "1G", "8e9"])
seconds = st.sampled_from([0.25, 1.0, 30.0, 600.0])
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
templates = st.dictionaries(words, json_values, max_size=2)
parts = st.lists(st.sampled_from([{"name": "a"}, {"name": "b", "c": [1, {}]}, {}]), max_size=2)
"""Pieces of a pod, such as volumes; their content is validated by the API server."""


@st.composite
def sizes(draw: st.DrawFn, unit: int) -> int | Replicas:
    least = draw(st.integers(0, 4)) * unit
    most = max(unit, least + draw(st.integers(0, 4)) * unit)
    if draw(st.booleans()):
        return most
    wanted = draw(st.none() | st.integers(least, most))
    return Replicas(min=least, max=most, wanted=wanted)


@st.composite
def resources(draw: st.DrawFn) -> ResourceSpec:
    names = st.sampled_from(["cpu", "memory", "nvidia.com/gpu"])
    requests = draw(st.dictionaries(names, st.sampled_from([1, "2", "1k", "1Gi"]), max_size=3))
    only = draw(st.dictionaries(names, amounts, max_size=3))
    if "memory" in only:
        only["memory"] = "2Gi"
    return ResourceSpec(
        requests=requests,
        limits={name: amount for name, amount in only.items() if name not in requests},
    )


exit_rules = st.builds(
    ExitRule,
    codes=st.lists(st.integers(0, 255), min_size=1, max_size=3).map(tuple),
    range=st.none()
    | st.tuples(st.integers(0, 99), st.integers(100, 255)).map(
        lambda ends: CodeRange(min=ends[0], max=ends[1])
    ),
    action=st.sampled_from(ExitAction),
)
environments = st.dictionaries(env_names, texts, max_size=3) | st.dictionaries(
    env_names, texts, max_size=3
).map(lambda env: tuple(EnvVar(name=name, value=value) for name, value in env.items()))
priorities = (
    st.none()
    | st.integers(-1000, 1000)
    | st.sampled_from([0.5, 0.0, 1.0, "high", "low", "high=0.5", "0.25", "system-batch"])
)


@st.composite
def role_specs(draw: st.DrawFn) -> RoleSpec:
    unit = draw(st.sampled_from([1, 1, 2, 4]))
    program: dict[str, Any] = draw(
        st.one_of(
            st.fixed_dictionaries({"command": st.lists(texts, min_size=1, max_size=3).map(tuple)}),
            st.fixed_dictionaries(
                {"script": words, "procs_per_node": st.sampled_from([1, 8, "auto", "gpu"])}
            ),
            st.fixed_dictionaries({"module": words}),
            st.fixed_dictionaries({"image": words}),
        )
    )
    return RoleSpec(
        replicas=draw(sizes(unit)),
        node_unit=unit,
        args=tuple(draw(st.lists(texts, max_size=3))),
        env=draw(environments),
        working_dir=draw(st.none() | words),
        resources=draw(resources()),
        restart_policy=draw(st.sampled_from(RestartPolicy)),
        restart_budget=RestartBudget(
            per_node=draw(st.integers(-1, 9)), per_role=draw(st.integers(-1, 9))
        ),
        exit_codes=tuple(draw(st.lists(exit_rules, max_size=2))),
        memory_growth=MemoryGrowth(
            factor=draw(st.sampled_from([1.0, 1.5, 2.0])),
            ceiling=draw(st.sampled_from(["64Gi", "1Ti", 2**33])),
        ),
        termination_grace_period_seconds=draw(seconds),
        priority=draw(priorities),
        required=draw(st.none() | st.booleans()),
        service_account=draw(st.none() | words),
        image_pull_policy=draw(st.sampled_from([None, "Always", "IfNotPresent", "Never"])),
        image_pull_secrets=draw(st.sampled_from([(), ("registry",)])),
        shared_memory=draw(st.sampled_from([None, "2Gi", 2**30])),
        volumes=tuple(draw(parts)),
        volume_mounts=tuple(draw(parts)),
        tolerations=tuple(draw(parts)),
        node_selector=draw(st.sampled_from([{}, {"zone": "a"}])),
        template=draw(templates),
        **program,
    )


@st.composite
def masters(draw: st.DrawFn) -> MasterSpec:
    return MasterSpec(
        image=draw(st.none() | words),
        resources=draw(resources()),
        storage=draw(st.sampled_from([None, MasterStorage(claim="store")])),
        priority_class=draw(st.none() | words),
        template=draw(st.sampled_from([{}, {"spec": {"containers": [{"name": "main"}]}}])),
    )


@st.composite
def elastic_jobs(draw: st.DrawFn) -> ElasticJob:
    names = draw(st.lists(labels, min_size=1, max_size=3, unique=True))
    roles: dict[str, RoleSpec] = {}
    for name in names:
        depends = draw(st.lists(st.sampled_from(list(roles)), max_size=2)) if roles else []
        drawn = draw(role_specs())
        roles[name] = RoleSpec(
            **{f: getattr(drawn, f) for f in drawn.__struct_fields__}
            | {"depends_on": tuple(depends)}
        )
    return ElasticJob(
        api_version="resile.dev/v1alpha1",
        kind="ElasticJob",
        metadata=Metadata(
            name=draw(labels),
            namespace=draw(labels),
            labels=draw(st.dictionaries(words, texts, max_size=2)),
            annotations=draw(st.dictionaries(words, texts, max_size=2)),
        ),
        spec=JobSpec(
            roles=roles,
            rendezvous=RendezvousSpec(last_call_seconds=draw(seconds), lease_seconds=draw(seconds)),
            max_restarts=draw(st.integers(0, 9)),
            suspend=draw(st.booleans()),
            active_deadline_seconds=draw(st.none() | seconds),
            ttl_seconds_after_finished=draw(st.none() | seconds),
            backoff_limit=draw(st.none() | st.integers(0, 9)),
            backoff=BackoffSpec(base_seconds=draw(seconds)),
            clean_pod_policy=draw(st.sampled_from(CleanPolicy)),
            success=SuccessSpec(roles=tuple(draw(st.lists(st.sampled_from(names), max_size=2)))),
            replicas=draw(st.none() | st.integers(0, 9)) if len(names) == 1 else None,
            gang_scheduling=draw(st.sampled_from(GangPolicy)),
            managed_by=draw(st.none() | words),
            master=draw(masters()),
        ),
    )
