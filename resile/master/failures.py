"""The failures of one round: the first of them, and their description."""

from __future__ import annotations

import msgspec

from resile.master.records import NodeRecord
from resile.system.exit_status import describe_exit
from resile.wire.messages import FailureReport, WorkerFailure


class Failures:
    """Collects failures since the round started, so that the first can be reported."""

    def __init__(self) -> None:
        self._reports: list[FailureReport] = []
        self._lost: list[FailureReport] = []

    def clear(self) -> None:
        """Forget all: a new round starts."""
        self._reports.clear()
        self._lost.clear()

    def note(self, node: NodeRecord, failure: WorkerFailure, *, reported_at: float) -> None:
        """Add a worker's failure; ``reported_at`` is Unix time."""
        report = FailureReport(
            node=node.id,
            name=node.info.name,
            host=node.info.host,
            failure=failure,
            when=reported_at - failure.age,
        )
        self._reports.append(report)

    def note_lost(self, node: NodeRecord, rank: int, why: str, *, noticed_at: float) -> None:
        """Add the loss of a node and its workers; ``rank`` is the first of them."""
        failure = WorkerFailure(local_rank=0, rank=rank, pid=0, exit_code=0, message=why)
        report = FailureReport(
            node=node.id,
            name=node.info.name,
            host=node.info.host,
            failure=failure,
            when=noticed_at,
        )
        self._lost.append(report)

    @property
    def first_node(self) -> int | None:
        """The node of the first failure."""
        first = self.first()
        return None if first is None else first.node

    def first(self) -> FailureReport | None:
        """The earliest failure: the others most likely follow from it. A lost node goes before
        every worker: its loss is noticed after the failures that it causes on other nodes."""
        reports = self._lost or self._reports
        first = min(reports, key=lambda report: report.when, default=None)
        if first is None:
            return None
        others = len(self._lost) + len(self._reports) - 1
        return msgspec.structs.replace(first, others=others)


def describe_failures(failures: tuple[WorkerFailure, ...], label: str) -> str:
    """Describe the failures of a node's workers in one sentence."""
    ends = ", ".join(f"rank {f.rank} {describe_exit(f.exit_code)}" for f in failures)
    return f"{ends} on {label}"
