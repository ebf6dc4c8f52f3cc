"""The Helm chart gives the same objects as kustomize, and each value works as documented."""

from __future__ import annotations

import copy
import json
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from resile import __version__
from resile.cli.commands.operator import operator
from tests.programs import KUBECTL
from tests.unit.deploy.chart import (
    CHART,
    DEPLOY,
    SYSTEM,
    Object,
    Objects,
    Refused,
    by_name,
    helm,
    kustomized,
    rendered,
)

NAME = "resile-operator"
OPERATOR = ("Deployment", SYSTEM, NAME)
ACCOUNT = ("ServiceAccount", SYSTEM, NAME)
HELMS_OWN = {
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/name",
    "app.kubernetes.io/version",
    "helm.sh/chart",
}
"""Labels that Helm's users expect on every object."""

POD = "spec.template.spec"
CONTAINER = f"{POD}.containers.0"
TEAM = {"watchNamespace": "team"}


@pytest.fixture(scope="module")
def usual() -> Objects:
    """The objects of the chart with default values."""
    return rendered()


# --- the same from both -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "copied"),
    [
        ("crds/elasticjobs.resile.dev.yaml", "helm/resile/crds/elasticjobs.resile.dev.yaml"),
        ("operator/rbac.yaml", "helm/resile/files/rbac.yaml"),
    ],
)
def test_what_the_chart_has_a_copy_of_is_up_to_date(source: str, copied: str) -> None:
    same = (DEPLOY / source).read_bytes() == (DEPLOY / copied).read_bytes()
    assert same, f"run: cp deploy/{source} deploy/{copied}"


def test_it_gives_what_kustomize_gives(usual: Objects) -> None:
    expected = kustomized(DEPLOY / "operator")
    # `helm install --create-namespace` makes it; kustomize leaves the image's tag to its user.
    del expected["Namespace", "", SYSTEM]
    put(expected[OPERATOR], f"{CONTAINER}.image", f"resile:{__version__}")
    assert without_helms_labels(usual) == without_helms_labels(expected)


def test_kustomize_gives_what_is_compared_with() -> None:
    words = [KUBECTL, "kustomize", str(DEPLOY / "operator")]
    given = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout
    assert by_name(yaml.safe_load_all(given)) == kustomized(DEPLOY / "operator")


def test_every_object_bears_helms_labels(usual: Objects) -> None:
    for key, one in usual.items():
        if key[0] != "CustomResourceDefinition":
            assert set(one["metadata"]["labels"]) == HELMS_OWN, key


def test_an_upgrade_keeps_the_selector(usual: Objects) -> None:
    """It cannot be changed, so nothing in it may change with a version."""
    expected = {"app.kubernetes.io/name": NAME}
    assert usual[OPERATOR]["spec"]["selector"] == {"matchLabels": expected}


def test_chart_and_operator_have_the_version_of_the_project() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


# --- as Helm wants it -------------------------------------------------------------------------


def test_helm_has_nothing_against_it() -> None:
    assert "1 chart(s) linted, 0 chart(s) failed" in helm("lint", "--strict", str(CHART))


def test_a_package_of_it_is_whole(tmp_path: Path) -> None:
    helm("package", str(CHART), "-d", str(tmp_path))
    package = tmp_path / f"resile-{__version__}.tgz"
    with tarfile.open(package) as packed:
        names = {Path(name).relative_to("resile") for name in packed.getnames()}
    assert names == {path.relative_to(CHART) for path in CHART.rglob("*") if path.is_file()}
    shown = yaml.safe_load(helm("show", "crds", str(package)))
    assert shown["metadata"]["name"] == "elasticjobs.resile.dev"


# --- what each value does ---------------------------------------------------------------------

AFFINITY = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []}}
TOLERATIONS = [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}]
LOUD = {"name": "RESILE_LOG", "value": "debug"}

EFFECTS: list[tuple[Object, str, Any]] = [
    ({"image": {"repository": "host:5000/a"}}, f"{CONTAINER}.image", f"host:5000/a:{__version__}"),
    ({"image": {"tag": "dev"}}, f"{CONTAINER}.image", "resile:dev"),
    ({"image": {"pullPolicy": "Always"}}, f"{CONTAINER}.imagePullPolicy", "Always"),
    ({"imagePullSecrets": [{"name": "key"}]}, f"{POD}.imagePullSecrets", [{"name": "key"}]),
    ({"replicas": 2}, "spec.replicas", 2),
    ({"logLevel": "debug"}, f"{CONTAINER}.env.3", LOUD),
    ({"podAnnotations": {"a": "b"}}, "spec.template.metadata.annotations.a", "b"),
    (
        {"podAnnotations": {"prometheus.io/port": None}},
        "spec.template.metadata.annotations",
        {"prometheus.io/scrape": "true"},
    ),
    ({"resources": {"limits": {"cpu": 2}}}, f"{CONTAINER}.resources.limits.cpu", 2),
    ({"resources": {"limits": None}}, f"{CONTAINER}.resources.limits", None),
    ({"nodeSelector": {"disk": "ssd"}}, f"{POD}.nodeSelector", {"disk": "ssd"}),
    ({"tolerations": TOLERATIONS}, f"{POD}.tolerations", TOLERATIONS),
    ({"affinity": AFFINITY}, f"{POD}.affinity", AFFINITY),
    ({"priorityClassName": "high"}, f"{POD}.priorityClassName", "high"),
]


@pytest.mark.parametrize(("values", "path", "wanted"), EFFECTS, ids=json.dumps)
def test_a_value_changes_this_and_nothing_else(
    usual: Objects, values: Object, path: str, wanted: Any
) -> None:
    expected = copy.deepcopy(usual)
    put(expected[OPERATOR], path, wanted)
    assert rendered(values) == expected


def test_another_service_account_is_used_everywhere() -> None:
    given = rendered({"serviceAccount": {"name": "other"}})
    assert ("ServiceAccount", SYSTEM, "other") in given
    assert ACCOUNT not in given
    assert given[OPERATOR]["spec"]["template"]["spec"]["serviceAccountName"] == "other"
    assert {subject["name"] for subject in subjects(given)} == {"other"}


def test_a_service_account_that_exists_is_not_made_again(usual: Objects) -> None:
    given = rendered({"serviceAccount": {"create": False}})
    assert given == {key: one for key, one in usual.items() if key != ACCOUNT}


def test_in_another_namespace_nothing_is_left_in_the_usual_one() -> None:
    given = rendered(namespace="other")
    assert {namespace for _, namespace, _ in given} == {"", "other"}
    assert {subject["namespace"] for subject in subjects(given)} == {"other"}


def test_names_that_look_like_numbers_stay_names() -> None:
    given = rendered({"watchNamespace": "42"}, namespace="007")
    assert {namespace for _, namespace, _ in given} == {"", "42", "007"}
    assert command(given)[-3] == "42"


def test_every_value_is_tried_here() -> None:
    apart = {"serviceAccount.create", "serviceAccount.name", "watchNamespace"}
    tried = {name for values, _, _ in EFFECTS for name in names(values)} | apart
    assert tried == set(names(yaml.safe_load((CHART / "values.yaml").read_text())))


def test_the_schema_knows_the_values_and_no_others() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())["properties"]
    assert set(schema) == {*values, "global"}
    for name in ("image", "serviceAccount"):
        assert set(schema[name]["properties"]) == set(values[name])


# --- one namespace ----------------------------------------------------------------------------


def test_for_one_namespace_the_operator_is_told_so(usual: Objects) -> None:
    given = command(rendered(TEAM))
    assert given == [*command(usual), "--namespace", "team", "--image", f"resile:{__version__}"]
    flags = {name for option in operator.params for name in option.opts}
    assert {word for word in given if word.startswith("--")} <= flags


def test_for_one_namespace_it_has_the_same_rules_and_most_of_them_there_only(
    usual: Objects,
) -> None:
    given = rendered(TEAM)
    cluster = given["ClusterRole", "", f"{NAME}-{SYSTEM}"]["rules"]
    there = given["Role", "team", f"{NAME}-jobs"]["rules"]
    everywhere = usual["ClusterRole", "", NAME]["rules"]
    assert cluster == [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}]
    assert there == [rule for rule in everywhere if rule not in cluster]
    assert len(there) + len(cluster) == len(everywhere)
    lease = ("Role", SYSTEM, NAME)
    assert given[lease] == usual[lease]


@pytest.mark.parametrize("values", [{}, TEAM, {"watchNamespace": SYSTEM}], ids=json.dumps)
def test_every_role_is_bound_to_the_operator(values: Object) -> None:
    given = rendered(values)
    roles = {key for key in given if key[0] in ("Role", "ClusterRole")}
    bindings = [one for key, one in given.items() if key[0].endswith("Binding")]
    bound = {
        (one["roleRef"]["kind"], one["metadata"].get("namespace", ""), one["roleRef"]["name"])
        for one in bindings
    }
    assert bound == roles
    subject = {"kind": "ServiceAccount", "name": NAME, "namespace": SYSTEM}
    assert all(one["subjects"] == [subject] for one in bindings)


def test_operators_for_one_namespace_each_can_be_side_by_side() -> None:
    first = rendered(TEAM, namespace="a")
    second = rendered({"watchNamespace": "crew"}, namespace="b")
    assert {key[0] for key in set(first) & set(second)} == {"CustomResourceDefinition"}


# --- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"image": {"repository": "resile:dev"}}, "image.repository: Does not match pattern"),
        ({"image": {"repository": None}}, "image: repository is required"),
        ({"image": {"tag": 1.5}}, "image.tag: Invalid type. Expected: string"),
        ({"image": {"tag": "a b"}}, "image.tag: Does not match pattern"),
        ({"image": {"pullPolicy": "Maybe"}}, "image.pullPolicy must be one of the following"),
        ({"image": {"name": "a"}}, "image: Additional property name is not allowed"),
        ({"image": None}, "image is required"),
        ({"imagePullSecrets": ["key"]}, "imagePullSecrets.0: Invalid type. Expected: object"),
        ({"replicas": -1}, "replicas: Must be greater than or equal to 0"),
        ({"replicas": "two"}, "replicas: Invalid type. Expected: integer"),
        ({"watchNamespace": "My_Team"}, "watchNamespace: Does not match pattern"),
        ({"watchNamespace": ["a", "b"]}, "watchNamespace: Invalid type. Expected: string"),
        ({"logLevel": "loud"}, "logLevel must be one of the following"),
        ({"serviceAccount": {"create": "yes"}}, "serviceAccount.create: Invalid type"),
        ({"serviceAccount": {"name": ""}}, "serviceAccount.name: Does not match pattern"),
        ({"podAnnotations": {"a": 1}}, "podAnnotations.a: Invalid type. Expected: string"),
        ({"resources": {"limits": {"memory": "4GB"}}}, "resources.limits.memory: Does not match"),
        ({"resources": {"limit": {}}}, "resources: Additional property limit is not allowed"),
        ({"nodeSelector": {"a": True}}, "nodeSelector.a: Invalid type. Expected: string"),
        ({"tolerations": [{"effect": "No"}]}, "tolerations.0.effect must be one of the following"),
        ({"affinity": {"nodes": {}}}, "affinity: Additional property nodes is not allowed"),
        ({"priorityClassName": 1}, "priorityClassName: Invalid type. Expected: string"),
        ({"replica": 2}, "Additional property replica is not allowed"),
    ],
    ids=json.dumps,
)
def test_a_wrong_value_is_refused_with_its_field(values: Object, complaint: str) -> None:
    with pytest.raises(Refused) as refusal:
        rendered(values)
    assert complaint in str(refusal.value)


def test_it_may_be_part_of_another_chart(usual: Objects) -> None:
    assert rendered({"global": {"domain": "example"}}) == usual


# --- helpers ----------------------------------------------------------------------------------


def without_helms_labels(objects: Objects) -> Objects:
    found = copy.deepcopy(objects)
    for one in found.values():
        one["metadata"].pop("labels", None)
    return found


def subjects(objects: Objects) -> Iterator[Object]:
    for one in objects.values():
        yield from one.get("subjects", ())


def command(objects: Objects) -> list[str]:
    (found,) = (one for key, one in objects.items() if key[0] == "Deployment")
    words: list[str] = found["spec"]["template"]["spec"]["containers"][0]["command"]
    return words


def put(data: Any, path: str, value: Any) -> None:
    """Set the value at a path, or append it to a list; None removes it."""
    *above, last = path.split(".")
    for name in above:
        data = data[int(name) if isinstance(data, list) else name]
    if isinstance(data, list):
        assert int(last) == len(data)
        data.append(value)
    elif value is None:
        del data[last]
    else:
        data[last] = value


def names(values: Object) -> Iterator[str]:
    """The names of values that the chart interprets; those below are Kubernetes' own."""
    for name, value in values.items():
        if name in ("image", "serviceAccount"):
            yield from (f"{name}.{below}" for below in value)
        else:
            yield name
