"""The delays and bounds of the controller, apart from those that a manifest sets.

What belongs to one job (budgets, back-off, deadlines, memory growth) is in its manifest. The rest
concerns the platform, and can be set where the controller is started.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

__all__ = ["DEFAULT_POLICY", "Policy"]


@dataclass(frozen=True)
class Policy:
    """The controller's own constants."""

    unseen_timeout: timedelta = timedelta(seconds=10)
    """A requested node that was not reported for this long does not exist.

    A cache of an API server lags by seconds at worst; with much less, a slow cache would look like
    a lost node. The rank then gets a new id, so that a node that appears after all is recognised.
    """

    request_again_after: timedelta = timedelta(seconds=10)
    """A stop or deletion without visible effect is repeated after so long, for the same reason."""

    decisions_kept: int = 50
    """The number of decisions in a status. 50 sentences are some 10 KB, far below the 1.5 MB that
    an object in Kubernetes may have, and more than a person reads."""

    ended_kept: int = 100
    """The number of replaced nodes that are kept for inspection. A job that is preempted all
    day would leave thousands of pods behind, and every reconcile goes through all of them."""

    high_priority: int = 1000
    """The value of the class ``high``. Nodes without a priority have 0, so both sides have room."""

    low_priority: int = -1000
    """The value of the class ``low``: less than that of a node without a priority."""

    host_suspect_for: timedelta = timedelta(hours=1)
    """The time for which a machine is avoided after a node ended there of a hardware-like cause. By
    then it was repaired or removed, or the cause was something else."""

    max_avoided_hosts: int = 3
    """The most machines that are avoided: a job must not run out of machines. 0: none."""

    avoid_hosts_for: timedelta = timedelta(seconds=60)
    """The time for which a node without room avoids such machines. Long enough for nodes that are
    just ending elsewhere to make room; with more, training would stall for a mere suspicion."""

    pending_notice_after: timedelta = timedelta(seconds=30)
    """After this time the status of a node without room says since when it has waited. A shorter
    wait is normal while other nodes make room."""

    exit_timeout: timedelta = timedelta(seconds=30)
    """The time that nodes may take to end by themselves once the training has succeeded.

    Long enough to write a last checkpoint; then they are stopped, with their own grace period.
    """


DEFAULT_POLICY = Policy()
