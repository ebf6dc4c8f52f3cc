"""The failures of one round: which came first, and how to say what happened."""

from __future__ import annotations

import signal

import msgspec

from resile.master.records import NodeRecord
from resile.wire.messages import FailureReport, WorkerFailure


class Failures:
    """What went wrong since the round started, so that the first can be named at the end."""

    def __init__(self) -> None:
        self._reports: list[FailureReport] = []

    def clear(self) -> None:
        """A new round starts with none."""
        self._reports.clear()

    def note(self, node: NodeRecord, failure: WorkerFailure, *, reported_at: float) -> None:
        """Remember one; ``reported_at`` is Unix time."""
        report = FailureReport(
            node=node.id,
            name=node.info.name,
            host=node.info.host,
            failure=failure,
            when=reported_at - failure.age,
        )
        self._reports.append(report)

    def first(self) -> FailureReport | None:
        """The earliest death: the others are most likely its echo."""
        first = min(self._reports, key=lambda report: report.when, default=None)
        if first is None:
            return None
        return msgspec.structs.replace(first, others=len(self._reports) - 1)


def describe_failures(failures: tuple[WorkerFailure, ...], label: str) -> str:
    """One sentence on what happened to a node's workers."""
    ends = ", ".join(f"rank {f.rank} {describe_exit(f.exit_code)}" for f in failures)
    return f"{ends} on {label}"


def describe_exit(code: int) -> str:
    """An exit code as subprocess counts it, in words."""
    if code >= 0:
        return f"exited with {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
