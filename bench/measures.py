"""The catalogue: which episode runs under which launchers, what it measures, and the target.

A launcher appears in an experiment with its defaults, and in those variants that affect the measure
in question.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from bench.episodes import (
    ONE_BY_TWO,
    TWO_BY_ONE,
    Episode,
    launched,
    lone_then_joined,
    master_killed,
    node_killed,
    worker_killed,
)
from bench.jobs import STEP_SECONDS
from bench.launchers import Shape
from bench.steady import steady_cost
from bench.targets import AtMost, ShareOfBest, Shown, Target

SHIPPED = ("torchrun", "torchrun-private-store", "dlrover", "resile")
ELASTIC = ("torchrun", "torchrun-private-store", "torchrun-etcd", "dlrover", "resile")
EVERY = (
    "torchrun",
    "torchrun-private-store",
    "torchrun-tuned",
    "torchrun-etcd",
    "dlrover",
    "dlrover-tuned",
    "resile",
)
LAST_CALL = 3.0
# The usual difference between two launches of the same job.
LAUNCH_SPREAD = 0.5


@dataclass(frozen=True)
class Measure:
    """A figure: its name, title, target and unit."""

    name: str
    title: str
    target: Target
    unit: str = "s"


@dataclass(frozen=True)
class Experiment:
    """An episode, the launchers it is run under, and the figures it yields."""

    name: str
    episode: Episode
    launchers: Sequence[str]
    measures: Sequence[Measure]


def _worker(name: str, shape: Shape, *, title: str, target: Target) -> Experiment:
    measure = Measure(name, title, target)
    return Experiment(name, partial(worker_killed, shape=shape, measure=name), SHIPPED, [measure])


def _node(name: str, node: int, *, title: str) -> Experiment:
    measure = Measure(name, title, AtMost(1.0, "under 1 s"))
    return Experiment(name, partial(node_killed, node=node, measure=name), EVERY, [measure])


def _launch(name: str, workers: int, *, target: Target) -> Experiment:
    shape = Shape(min_nodes=1, max_nodes=1, workers_per_node=workers)
    measure = Measure(name, f"launch to first step, 1 node x {workers}", target)
    return Experiment(name, partial(launched, shape=shape, measure=name), SHIPPED, [measure])


LIBRARIES = "pandas sklearn.datasets transformers lightning"
"""Common imports of training scripts besides torch. Some start threads or read ranks at import."""


def _with_libraries(name: str, episode: Callable[..., None], *, title: str) -> Experiment:
    """An episode whose workers import more than torch, under launchers that can import it."""
    measure = Measure(name, title, ShareOfBest(1.0, "no slower than the fastest peer"))
    with_libraries = partial(episode, shape=ONE_BY_TWO, measure=name, libraries=LIBRARIES)
    return Experiment(name, with_libraries, ("torchrun", "resile"), [measure])


RECOVERY = (
    _worker(
        "worker-1x2",
        ONE_BY_TWO,
        title="kill -9 of a worker to next step, 1 node x 2",
        target=ShareOfBest(1 / 10, "at most a tenth of the better peer"),
    ),
    _worker(
        "worker-2x1",
        TWO_BY_ONE,
        title="kill -9 of a worker to next step, 2 nodes x 1",
        target=ShareOfBest(1 / 15, "at most a fifteenth of the better peer"),
    ),
    _with_libraries(
        "worker-libraries",
        worker_killed,
        title="kill -9 of a worker that imports pandas, scikit-learn, transformers, Lightning",
    ),
    _node("node-lost", 1, title="kill -9 of a node, nnodes 1:2, to the survivor's next step"),
    _node(
        "store-node-lost", 0, title="same, but of the node that started first (torchrun's store)"
    ),
    Experiment(
        "lone-then-joined",
        lone_then_joined,
        ELASTIC,
        [
            Measure("lone-launch", "launch with one of 1:2 nodes there, to first step", Shown()),
            Measure(
                "lone-extra",
                "same, beyond the same launcher's launch with --nnodes 1",
                AtMost(LAST_CALL + LAUNCH_SPREAD, "the last call of 3 s"),
            ),
            Measure(
                "join-first-step", "a second node joins 1:2, to the first step of both", Shown()
            ),
            Measure(
                "join-pause",
                "same, the pause of the node that was training",
                AtMost(1.0, "under 1 s"),
            ),
        ],
    ),
    Experiment(
        "master-killed",
        master_killed,
        ("dlrover", "resile"),
        [
            Measure("master-steps-lost", "master killed: steps lost", AtMost(0, "none"), "steps"),
            Measure("master-gap", "master killed: longest gap between steps", Shown()),
            Measure(
                "master-extra-gap",
                "same, beyond the longest gap before the kill",
                AtMost(STEP_SECONDS, "no longer than an ordinary step"),
            ),
            Measure("master-next-recovery", "worker killed after the master's return", Shown()),
        ],
    ),
)

LAUNCH = (
    _launch("launch-1x2", 2, target=ShareOfBest(1.0, "no slower than the fastest peer")),
    _launch("launch-1x8", 8, target=ShareOfBest(1 / 2, "at least twice as fast")),
    _with_libraries(
        "launch-libraries",
        launched,
        title="launch to first step with pandas, scikit-learn, transformers, Lightning",
    ),
)

STEADY_SECONDS = 30.0
STEADY = (
    Experiment(
        "steady",
        partial(steady_cost, seconds=STEADY_SECONDS),
        ("torchrun-private-store", "torchrun-etcd", "dlrover", "resile"),
        [
            Measure("steady-agent", "CPU of the agent per node while training", Shown(), "% core"),
            Measure(
                "steady-master", "CPU of the master per node while training", Shown(), "% core"
            ),
            Measure(
                "steady-total",
                "CPU of agent and master per node while training",
                AtMost(1.0, "under 1 % of a core"),
                "% core",
            ),
        ],
    ),
)
