"""The catalogue: which episode runs with which systems, what it measures, and the target."""

from functools import partial

from bench.checkpoints.episodes import node_replaced, slowed, stalled, worker_restored
from bench.checkpoints.systems import COPY
from bench.measures import Experiment, Measure
from bench.targets import OURS, AtMost, Shown, TimesOf

SIZES = (200, 1000)
_EVERY = (COPY, "torch-save", "dcp-async", "dlrover", "resile")
_WRITING = ("dcp-async", "dlrover", "resile")
_SURVIVING = ("dlrover", "resile")
_STALL = TimesOf({COPY: 1.3, "dlrover": 1.0}, "1.3 times a plain copy, and no more than DLRover's")
_TIMES_A_COPY = "times a plain copy"


def _stalls(size: int) -> Experiment:
    return Experiment(
        f"stall-{size}",
        partial(stalled, megabytes=size),
        _EVERY,
        [
            Measure(f"stall-{size}", f"{size} MB: stall of a save after the first", _STALL),
            Measure(f"first-stall-{size}", f"{size} MB: stall of the first save", Shown()),
            Measure(
                f"first-stall-ratio-{size}",
                f"{size} MB: stall of the first save over the later ones",
                AtMost(2.0, "at most twice the later ones"),
                "times",
            ),
        ],
    )


def _slowdown(size: int) -> Experiment:
    return Experiment(
        f"slowdown-{size}",
        partial(slowed, megabytes=size),
        _WRITING,
        [
            Measure(
                f"slowdown-{size}",
                f"{size} MB: steps slowed while storage is written",
                AtMost(5.0, "at most 5 %"),
                "%",
            ),
            Measure(
                f"durable-stall-{size}",
                f"{size} MB: stall of a save that goes to storage, after the first",
                Shown(),
            ),
        ],
    )


def _restored(size: int) -> Experiment:
    step = AtMost(0.4, "under 0.4 s") if size == SIZES[0] else Shown()
    return Experiment(
        f"restore-{size}",
        partial(worker_restored, megabytes=size),
        _SURVIVING,
        [
            Measure(
                f"restored-step-{size}",
                f"{size} MB: kill -9 of a worker to next step, restored",
                step,
            ),
            Measure(f"restore-{size}", f"{size} MB: restore from own memory", Shown()),
            Measure(
                f"restore-ratio-{size}",
                f"{size} MB: restore from own memory over a plain copy",
                AtMost(1.5, "at most 1.5 times a plain copy"),
                _TIMES_A_COPY,
            ),
        ],
    )


def _peer(size: int) -> Experiment:
    return Experiment(
        f"peer-{size}",
        partial(node_replaced, megabytes=size),
        (OURS,),
        [
            Measure(
                f"peer-restore-{size}",
                f"{size} MB: a node is lost, the new one restores from another's memory",
                Shown(),
            ),
            Measure(
                f"peer-restore-ratio-{size}",
                f"{size} MB: same, over three plain copies and a transfer on loopback",
                AtMost(1.0, "at most three plain copies and the transfer"),
                "times",
            ),
        ],
    )


CHECKPOINTS = tuple(make(size) for make in (_stalls, _restored, _slowdown, _peer) for size in SIZES)
