"""An admission webhook that fails with a different message each time: retries are limited."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from resile.kube.resources import Resource
from resile.operator.build.labels import MASTER, master_labels
from tests.kube.operator.stage import Stage, eventually
from tests.kube.operator.standin import StandIn

pytestmark = [pytest.mark.usefixtures("operator"), pytest.mark.timeout(180)]

WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    namespaced=False,
)
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: close with a reset, whose message from the API server names its own port."""


@asynccontextmanager
async def hanging_up() -> AsyncIterator[tuple[int, list[float]]]:
    """A port that resets every call, and the times of the calls."""
    calls: list[float] = []

    async def reset(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        calls.append(time.monotonic())
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        writer.close()

    server = await asyncio.start_server(reset, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], calls


def asked_for_masters(port: int, namespace: str) -> dict[str, Any]:
    return {
        "metadata": {"name": f"hangs-up-{namespace}"},
        "webhooks": [
            {
                "name": "hangs.up.example",
                "clientConfig": {"url": f"https://127.0.0.1:{port}/"},
                "objectSelector": {"matchLabels": master_labels("digits")},
                "rules": [
                    {
                        "operations": ["CREATE"],
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "resources": ["pods"],
                    }
                ],
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
        ],
    }


async def test_a_master_that_is_refused_in_other_words_each_time_is_tried_now_and_then(
    stage: Stage, kubelets: StandIn
) -> None:
    async with hanging_up() as (port, calls):
        webhook = asked_for_masters(port, stage.client.namespace)
        await stage.client.create(WEBHOOKS, webhook)
        try:
            await stage.create("digits", {"replicas": {"min": 1, "max": 2}})
            await stage.condition("digits", "MasterReady", "failed calling webhook")

            async def thrice() -> bool:
                return len(calls) >= 3

            await eventually(thrice, "three tries")
            assert calls[2] - calls[0] > 5.0, "the back-off counts, whatever the words are"
        finally:
            await stage.client.delete(WEBHOOKS, webhook["metadata"]["name"])

        async def started() -> bool:
            return len(await stage.pods("digits", MASTER)) == 1

        await eventually(started, "the master to be made after all")
