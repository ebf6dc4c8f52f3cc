"""Decide whether a measure meets its target. Pure: series in, verdict out.

A target applies to Resile's median. Ratios are taken against another launcher's median in the same
run, never against a number from elsewhere; a launcher that mostly failed has an infinite median and
is not compared with.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bench.results import MeasureResult, Series

OURS = "resile"


class Verdict(NamedTuple):
    """Whether a target is met (None: unknown), and the text that shows it."""

    met: bool | None
    text: str


class Target(ABC):
    """The target of one measure."""

    wanted: str

    @abstractmethod
    def judge(self, series: Sequence[Series]) -> Verdict:
        """Return the verdict on all launchers' series of one measure."""


class Bound(Target):
    """A target that Resile's median either meets or misses."""

    def judge(self, series: Sequence[Series]) -> Verdict:
        """Return the verdict; unknown if Resile was not measured."""
        ours = next((one for one in series if one.family == OURS), None)
        if ours is None:
            return Verdict(None, "Resile was not measured")
        if math.isinf(ours.median):
            return Verdict(False, "Resile mostly failed")
        return self._judge(ours.median, [one for one in series if one.family != OURS])

    @abstractmethod
    def _judge(self, ours: float, others: Sequence[Series]) -> Verdict: ...


@dataclass(frozen=True)
class AtMost(Bound):
    """An absolute bound on the median."""

    bound: float
    wanted: str

    def _judge(self, ours: float, others: Sequence[Series]) -> Verdict:
        del others
        return Verdict(ours <= self.bound, f"{ours:.3g}, wanted at most {self.bound:g}")


@dataclass(frozen=True)
class ShareOfBest(Bound):
    """At most this share of the best other launcher's median."""

    share: float
    wanted: str

    def _judge(self, ours: float, others: Sequence[Series]) -> Verdict:
        able = [one for one in others if not math.isinf(one.median)]
        if not able:
            return Verdict(None, "no other launcher has a figure to compare with")
        best = min(able, key=lambda one: one.median)
        share = ours / best.median
        text = f"{share:.3f} of {best.label}'s {best.median:.3g}, wanted at most {self.share:.3f}"
        return Verdict(share <= self.share, text)


@dataclass(frozen=True)
class TimesOf(Bound):
    """At most a factor times the median of each named launcher that has a finite one."""

    factors: Mapping[str, float]
    wanted: str

    def _judge(self, ours: float, others: Sequence[Series]) -> Verdict:
        able = [
            one for one in others if one.launcher in self.factors and not math.isinf(one.median)
        ]
        if not able:
            return Verdict(None, "nothing to compare with has a figure")
        ratios = [(one, ours / one.median, self.factors[one.launcher]) for one in able]
        text = ", ".join(
            f"{ratio:.2f} times {one.label}'s {one.median:.3g} (at most {factor:g})"
            for one, ratio, factor in ratios
        )
        return Verdict(all(ratio <= factor for _, ratio, factor in ratios), text)


@dataclass(frozen=True)
class Shown(Target):
    """A figure without a bound."""

    wanted: str = "shown for comparison"

    def judge(self, series: Sequence[Series]) -> Verdict:
        """Return an unknown verdict: there is no bound."""
        del series
        return Verdict(None, "")


def judged(
    name: str,
    title: str,
    series: Sequence[Series],
    *,
    target: Target,
    unit: str,
    size: int | None = None,
) -> MeasureResult:
    """A measure with its verdict, ready to be saved."""
    verdict = target.judge(series)
    return MeasureResult(
        measure=name,
        title=title,
        unit=unit,
        wanted=target.wanted,
        verdict=verdict.text,
        met=verdict.met,
        series=list(series),
        size=size,
    )
