"""Every delay and bound the controller decides with, apart from those a manifest sets.

What belongs to one job (budgets, back-off, deadlines, memory growth) is in its manifest. What is
left concerns the platform, and can be set where the controller is started.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

__all__ = ["DEFAULT_POLICY", "Policy"]


@dataclass(frozen=True)
class Policy:
    """The controller's own constants."""

    unseen_for: timedelta = timedelta(seconds=10)
    """A node that was asked for and never reported for so long did not come to be.

    A cache of an API server lags by seconds at worst; much sooner, a slow cache would look like a
    lost node. The rank then gets a new id, so that one which appears after all is recognised.
    """

    ask_again_after: timedelta = timedelta(seconds=10)
    """A stop or deletion without any visible effect is asked for again; the same reasoning."""

    decisions_kept: int = 50
    """How many decisions a status carries. 50 sentences are some 10 KB, far below the 1.5 MB that
    an object in Kubernetes may have, and more than a person reads."""

    ended_kept: int = 100
    """How many nodes whose ranks others have by now stay to be looked at. A job that is preempted
    all day would leave thousands of pods behind, each of which every look goes through."""

    high_priority: int = 1000
    """The value of the class ``high``. Nodes without a priority have 0, so both sides have room."""

    low_priority: int = -1000
    """The value of the class ``low``: less than a node of which nothing was said."""

    host_memory: timedelta = timedelta(hours=1)
    """For how long a machine on which a node died of a hardware-like cause is avoided. Somebody
    repairs or removes it, or it was something else."""

    hosts_avoided: int = 3
    """How many such machines at most: a job must not run out of places to go. 0: none ever."""

    elsewhere_for: timedelta = timedelta(seconds=60)
    """For how long a node that finds no room looks for it away from such machines. Long enough for
    what is just ending elsewhere to make room; longer, and training would stand still because of a
    mere doubt."""

    patience_told: timedelta = timedelta(seconds=30)
    """After how long a node without room says since when it has waited: one that is just being
    placed, while others make room, does not puzzle anyone."""

    leave_time: timedelta = timedelta(seconds=30)
    """How long nodes may take to end by themselves once the training has succeeded.

    Long enough to write a last checkpoint; then they are stopped, with their own grace period.
    """


DEFAULT_POLICY = Policy()
