"""Whether the scheduler took a pod away for one that is more important.

From Kubernetes 1.26 on the pod itself says so. Before that only an Event does, which is written a
moment after the pod is deleted: it is asked for twice, so that a person reads "was preempted by"
and not "was deleted".
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
"""Seconds before each question. The pod's replacement waits as long."""


def may_be_preempted(pod: Mapping[str, Any]) -> bool:
    """Whether the pod is being deleted and does not say why itself."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    told = any(one["type"] == DISRUPTION_TARGET for one in conditions)
    return "deletionTimestamp" in pod["metadata"] and not told


async def preemption_of(client: KubeClient, pod: Mapping[str, Any]) -> str:
    """What the scheduler says of a pod's preemption; empty if it was not preempted."""
    about = pod["metadata"]
    for wait in WAITS:
        await asyncio.sleep(wait)
        found = await client.list(
            EVENTS,
            namespace=about["namespace"],
            fields=f"involvedObject.uid={about['uid']},reason=Preempted",
        )
        for event in found.items:
            return str(event.get("message") or "for a pod that is more important")
    return ""
