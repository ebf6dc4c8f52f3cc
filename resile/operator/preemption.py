"""Find out whether a pod was preempted by the scheduler.

From Kubernetes 1.26 on a condition of the pod says so. Before that only an Event does, which is
written a moment after the pod is deleted: it is looked up twice, so that people read "was preempted
by" and not "was deleted".
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from resile.control.pods import DISRUPTION_TARGET
from resile.platform.kubernetes.client import KubeClient
from resile.platform.kubernetes.kinds import EVENTS

__all__ = ["may_be_preempted", "preemption_of"]

WAITS = (0.0, 0.2)
"""Seconds before each lookup. The pod's replacement waits as long."""


def may_be_preempted(pod: Mapping[str, Any]) -> bool:
    """Return whether the pod is being deleted and has no condition that says why."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    told = any(one["type"] == DISRUPTION_TARGET for one in conditions)
    return "deletionTimestamp" in pod["metadata"] and not told


async def preemption_of(client: KubeClient, pod: Mapping[str, Any]) -> str:
    """Return the scheduler's message about a pod's preemption; empty if it was not preempted."""
    about = pod["metadata"]
    for wait in WAITS:
        await asyncio.sleep(wait)
        found = await client.list(
            EVENTS,
            namespace=about["namespace"],
            fields=f"involvedObject.uid={about['uid']},reason=Preempted",
        )
        for event in found.items:
            return str(event.get("message") or "for a pod of higher priority")
    return ""
