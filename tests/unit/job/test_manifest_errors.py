"""Every mistake in a manifest is reported with its field, the value and what would be right."""

from __future__ import annotations

import pytest

from resile.job.errors import ManifestError, Problem
from resile.job.manifest.parse import parse_manifest

HEAD = """\
apiVersion: resile.dev/v1alpha1
kind: ElasticJob
metadata: {name: digits}
"""


def problems(text: str) -> tuple[Problem, ...]:
    with pytest.raises(ManifestError) as caught:
        parse_manifest(text)
    return caught.value.problems


def only_problem(text: str) -> Problem:
    found = problems(text)
    assert len(found) == 1, [str(problem) for problem in found]
    return found[0]


def worker(fields: str) -> str:
    return f"{HEAD}spec: {{roles: {{worker: {{script: train.py, {fields}}}}}}}"


@pytest.mark.parametrize(
    ("fields", "path", "message"),
    [
        # wrong types
        (
            "replicas: two",
            "replicas",
            "expected an integer of at least 0 and at most 5000 or a mapping with min, max, ",
        ),
        (
            "replicas: {min: two}",
            "replicas.min",
            'expected an integer of at least 0 and at most 5000, found "two"',
        ),
        (
            "replicas: {min: 1.5}",
            "replicas.min",
            "expected an integer of at least 0 and at most 5000, found the number 1.5",
        ),
        (
            "replicas: -1",
            "replicas",
            "expected an integer of at least 0 and at most 5000 or a mapping with min, max, ",
        ),
        ("args: --fast", "args", 'expected a list, each item a text, found "--fast"'),
        ("args: [3]", "args[0]", 'expected a text, found the number 3; put it in quotes: "3"'),
        (
            "env: {DEBUG: 1}",
            "env.DEBUG",
            'expected a text, found the number 1; put it in quotes: "1"',
        ),
        (
            "env: {DEBUG: yes}",
            "env.DEBUG",
            'expected a text, found the boolean true; put it in quotes: "true"',
        ),
        (
            "env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]",
            "env[0].valueFrom",
            "variables from secrets, config maps and the like go into "
            "template.spec.containers[0].env",
        ),
        (
            "envFrom: [{secretRef: {name: s}}]",
            "envFrom",
            "variables from secrets, config maps and the like go into "
            "template.spec.containers[0].envFrom",
        ),
        (
            "nodeUnit: 0",
            "nodeUnit",
            "expected an integer of at least 1 and at most 5000, found the number 0",
        ),
        (
            "procsPerNode: many",
            "procsPerNode",
            "expected an integer of at least 1 and at most 4096 or one of auto, cpu, gpu, ",
        ),
        (
            "restartPolicy: onFailure",
            "restartPolicy",
            "expected one of Never, OnFailure, Always, ExitCode, found ",
        ),
        ("required: maybe", "required", 'expected true or false, found "maybe"'),
        (
            "memoryGrowth: {factor: 0.5}",
            "memoryGrowth.factor",
            "expected a number of at least 1 and at most 16, found the number 0.5",
        ),
        (
            "exitCodes: [{codes: [1]}]",
            "exitCodes[0].action",
            "is missing: give one of Fail, Relaunch, RelaunchFree, Succeed",
        ),
        (
            "exitCodes: [{codes: [256], action: Fail}]",
            "exitCodes[0].codes[0]",
            "expected an integer of at least 0 and at most 255, found the number 256",
        ),
        (
            "template: {since: 2024-01-01}",
            "template.since",
            "found a date, which JSON cannot hold; put it in quotes",
        ),
        (
            "ports: {Grpc: 2222}",
            "ports.Grpc",
            "the name must be lower-case letters, digits and '-', beginning with a letter, ending "
            "with a letter or digit, at most 15 characters",
        ),
        # unknown fields
        ("replica: 2", "replica", "is not a known field; did you mean replicas?"),
        ("proc_per_node: 2", "proc_per_node", "is not a known field; did you mean procsPerNode?"),
        (
            "restartBudget: {xyz: 1}",
            "restartBudget.xyz",
            "is not a known field; known fields: perNode, perRole",
        ),
        # relations
        ("replicas: {min: 4, max: 2}", "replicas.min", "min (4) is greater than max (2)"),
        (
            "replicas: {min: 1, max: 2, wanted: 3}",
            "replicas.wanted",
            "wanted (3) must lie between min (1) and max (2)",
        ),
        (
            "replicas: {min: 1, max: 3}, nodeUnit: 4",
            "nodeUnit",
            "no multiple of 4 lies between 1 and 3 nodes",
        ),
        ("replicas: 3, nodeUnit: 2", "replicas", "3 is not a multiple of nodeUnit (2)"),
        (
            "replicas: 0",
            "replicas",
            "the job succeeds when this role completes, so it needs at least one node",
        ),
        ("command: [train]", "script", "give only one of command and script"),
        ("module: train", "module", "give only one of script and module"),
        ("env: [{name: A, value: x}, {name: A, value: y}]", "env[1].name", "A is given twice"),
        (
            'env: {"A=B": x}',
            "env.A=B",
            "a variable's name is made of letters, digits, '_', '-' and '.'",
        ),
        (
            "priority: high=2",
            "priority",
            "the fraction of high ranks lies between 0 and 1, found high=2",
        ),
        (
            "priority: 'very high'",
            "priority",
            "expected an integer, a class such as high or low, or a fraction ",
        ),
        ("exitCodes: [{action: Fail}]", "exitCodes[0].codes", "is missing: give codes or a range"),
        (
            "exitCodes: [{range: {min: 9, max: 3}, action: Fail}]",
            "exitCodes[0].range.min",
            "min (9) is greater than max (3)",
        ),
        # amounts
        (
            "resources: {requests: {memory: 4GB}}",
            "resources.requests.memory",
            "'4GB' has an unknown unit; did you mean 4G?",
        ),
        (
            "resources: {limits: {memory: 100m}}",
            "resources.limits.memory",
            "100m is a fraction of a byte; did you mean 100Mi?",
        ),
        (
            "resources: {requests: {cpu: 2}, limits: {cpu: 1}}",
            "resources.limits.cpu",
            "the limit 1 is less than the request 2",
        ),
        (
            "memoryGrowth: {ceiling: lots}",
            "memoryGrowth.ceiling",
            "'lots' is not an amount; write a number with an optional unit",
        ),
        (
            "sharedMemory: 2GB",
            "sharedMemory",
            "'2GB' has an unknown unit; did you mean 2G?",
        ),
        # pods
        (
            "imagePullPolicy: Sometimes",
            "imagePullPolicy",
            'expected one of Always, IfNotPresent, Never, found "Sometimes"',
        ),
        ("volumes: [data]", "volumes[0]", 'expected a mapping, found "data"'),
        ("tolerations: {key: gpu}", "tolerations", "expected a list, each item a mapping, found "),
        ("nodeSelector: {zone: 1}", "nodeSelector.zone", "expected a text, found the number 1"),
        # start order
        ("dependsOn: [ps]", "dependsOn[0]", 'there is no role "ps"; the roles are worker'),
        ("dependsOn: [worker]", "dependsOn", "roles depend on each other: worker -> worker"),
    ],
)
def test_a_mistake_in_a_role_is_named(fields: str, path: str, message: str) -> None:
    problem = only_problem(worker(fields))
    assert problem.path == f"spec.roles.worker.{path}"
    assert problem.message.startswith(message)
    assert problem.line == 4


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        (HEAD, "spec", "is missing: give a mapping with roles, "),
        (HEAD + "spec: {roles: {}}", "spec.roles", "expected at least 1 entry, found none"),
        (
            HEAD + "spec: {roles: {worker: {}}}",
            "spec.roles.worker.command",
            "is missing: give a command, a script or a module",
        ),
        (HEAD + "spec: {roles: {worker: }}", "spec.roles.worker", "expected a mapping with "),
        (
            HEAD + "spec: {roles: {Worker: {script: x}}}",
            "spec.roles.Worker",
            "the name must be lower-case letters",
        ),
        (
            HEAD + "spec: {roles: {worker: {script: x}}, success: {roles: [chief]}}",
            "spec.success.roles[0]",
            'there is no role "chief"; the roles are worker',
        ),
        (
            HEAD + "spec: {roles: {worker: {script: x}}, maxRestarts: -1}",
            "spec.maxRestarts",
            "expected an integer of at least 0 and at most 1000000, found the number -1",
        ),
        (
            HEAD + "spec: {roles: {worker: {script: x}}, activeDeadlineSeconds: 0}",
            "spec.activeDeadlineSeconds",
            "expected a number greater than 0 and at most 315360000, found the number 0",
        ),
        (
            HEAD + "spec: {roles: {worker: {script: x}}, replicas: -1}",
            "spec.replicas",
            "expected an integer of at least 0 and at most 5000, found the number -1",
        ),
        (
            HEAD + "spec: {roles: {a: {script: x}, b: {script: x}}, replicas: 2}",
            "spec.replicas",
            "the role to scale is ambiguous (a, b): name one of them worker, ",
        ),
        (
            HEAD + "spec: {roles: {worker: {script: x}}, gangScheduling: Pods}",
            "spec.gangScheduling",
            'expected one of None, SchedulingGates, PodGroup, found "Pods"',
        ),
        (
            HEAD + "spec: {roles: {worker: {script: x}}, master: {storage: {}}}",
            "spec.master.storage.claim",
            "is missing: give a text that is not empty",
        ),
        (
            HEAD + "spec: {roles: {worker: {script: x}}, master: {resources: {limits: {cpu: x}}}}",
            "spec.master.resources.limits.cpu",
            "'x' is not an amount",
        ),
        ("", "", "expected a mapping with apiVersion: resile.dev/v1alpha1 and kind: ElasticJob"),
        ("- a", "", "expected a mapping with apiVersion: resile.dev/v1alpha1 and kind: ElasticJob"),
    ],
)
def test_a_mistake_elsewhere_is_named(text: str, path: str, message: str) -> None:
    problem = only_problem(text)
    assert problem.path == path
    assert problem.message.startswith(message)


SOUND = "spec: {roles: {worker: {script: train.py}}}"


@pytest.mark.parametrize(
    ("head", "path", "message"),
    [
        (
            "kind: ElasticJob\nmetadata: {name: a}\n",
            "apiVersion",
            "is missing: give resile.dev/v1alpha1",
        ),
        (
            "apiVersion: v1\nkind: ElasticJob\nmetadata: {name: a}\n",
            "apiVersion",
            'expected resile.dev/v1alpha1, found "v1"',
        ),
        (
            "apiVersion: resile.dev/v1alpha1\nkind: Job\nmetadata: {name: a}\n",
            "kind",
            'expected ElasticJob, found "Job"',
        ),
        (
            "apiVersion: resile.dev/v1alpha1\nkind: ElasticJob\nmetadata: {}\n",
            "metadata.name",
            "is missing: give lower-case letters",
        ),
        (
            "apiVersion: resile.dev/v1alpha1\nkind: ElasticJob\nmetadata: {name: My_Job}\n",
            "metadata.name",
            "expected lower-case letters",
        ),
        (
            "apiVersion: resile.dev/v1alpha1\nkind: ElasticJob\n"
            "metadata: {name: a, namespace: My_Space}\n",
            "metadata.namespace",
            "expected lower-case letters, digits and '-', beginning and ending with a letter or ",
        ),
        (
            f"apiVersion: resile.dev/v1alpha1\nkind: ElasticJob\nmetadata: {{name: {'a' * 60}}}\n",
            "metadata.name",
            "nodes would be called ",
        ),
    ],
)
def test_a_mistake_in_the_header_is_named(head: str, path: str, message: str) -> None:
    problem = only_problem(head + SOUND)
    assert problem.path == path
    assert problem.message.startswith(message)


def test_a_misspelt_word_gets_a_suggestion() -> None:
    found = only_problem(worker("restartPolicy: onFailure"))
    assert found.message.endswith('found "onFailure"; did you mean OnFailure?')


def test_roles_that_wait_for_each_other_are_named_in_order_and_once() -> None:
    text = HEAD + (
        "spec: {roles: {a: {script: x, dependsOn: [b]}, b: {script: x, dependsOn: [c]}, "
        "c: {script: x, dependsOn: [a]}, d: {script: x, dependsOn: [a]}}}"
    )
    problem = only_problem(text)
    assert problem.message == "roles depend on each other: a -> b -> c -> a"


def test_all_problems_come_at_once_each_with_its_line() -> None:
    text = """\
apiVersion: resile.dev/v1
kind: ElasticJob
metadata:
  name: digits
  lables: {a: b}
spec:
  roles:
    worker:
      scrpt: train.py
      replicas:
        min: 3
        max: 2
      resources:
        requests: {memory: 1GB}
    ps:
      command: python ps.py
      dependsOn: [chef]
  suspend: "no"
"""
    found = [(problem.path, problem.line) for problem in problems(text)]
    assert found == [
        ("apiVersion", 1),
        ("metadata.lables", 5),
        ("spec.roles.worker.scrpt", 9),
        ("spec.roles.worker.replicas.min", 11),
        ("spec.roles.worker.resources.requests.memory", 14),
        ("spec.roles.ps.command", 16),
        ("spec.roles.ps.dependsOn[0]", 17),
        ("spec.suspend", 18),
    ]


def test_a_field_beside_a_faulty_one_is_not_blamed_for_it() -> None:
    problem = only_problem(worker("replicas: {min: 5, max: x}"))
    assert problem.path == "spec.roles.worker.replicas.max"


def test_one_problem_is_one_line_and_several_are_a_list() -> None:
    with pytest.raises(ManifestError) as one:
        parse_manifest(worker("nodeUnit: 0"))
    assert str(one.value) == (
        "spec.roles.worker.nodeUnit: expected an integer of at least 1 and at most 5000, "
        "found the number 0 (line 4)"
    )
    with pytest.raises(ManifestError) as two:
        parse_manifest(worker("nodeUnit: 0, args: x"))
    assert str(two.value).startswith(
        "2 problems in the manifest:\n  - spec.roles.worker.nodeUnit: "
    )


# --- the text itself ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a:\n  - b\n c: d\n", 3, "not valid YAML: while parsing a block mapping"),
        ("a: [1, 2", 1, "not valid YAML: while parsing a flow sequence"),
        ("a: 'unfinished", 1, "not valid YAML: while scanning a quoted scalar"),
        ("a: 1\n---\nb: 2\n", 2, "not valid YAML: expected a single document"),
        ("a: !!python/name:os.system", 1, "not valid YAML: could not determine a constructor"),
        ("a: \x00", None, "not valid YAML: "),
        ("a: &x [*x]", None, "the alias at a[0] contains itself"),
        ("[" * 5000, None, "nested too deeply"),
    ],
)
def test_a_mistake_in_the_text_is_named_with_its_line(
    text: str, line: int | None, message: str
) -> None:
    problem = only_problem(text)
    assert problem.line == line
    assert problem.message.startswith(message)


def test_a_key_given_twice_is_found() -> None:
    problem = only_problem(HEAD + SOUND + "\nkind: ElasticJob\n")
    assert (problem.path, problem.message, problem.line) == (
        "kind",
        "already given at line 2",
        5,
    )


def test_a_key_that_is_not_text_is_found() -> None:
    assert only_problem(HEAD + SOUND + "\n7: x\n").message == "keys must be text, found '7'"


def test_an_impossible_date_is_found() -> None:
    problem = problems(worker("template: {a: 2024-13-41}"))[0]
    assert problem.path == "spec.roles.worker.template.a"
    assert problem.message.startswith("cannot read '2024-13-41'")


def test_aliases_of_aliases_do_not_exhaust_the_reader() -> None:
    laughs = "\n".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" if n else "a0: &a0 [x, x]"
        for n in range(10)
    )
    assert "more than 100000 values" in only_problem(laughs).message
