"""The operator dies, runs twice, or loses the API server or its position in the history."""

from __future__ import annotations

import signal
from pathlib import Path

from resile.kube.resources import ELASTIC_JOBS, PODS
from tests.kube.apiserver import ApiServer
from tests.kube.operator.operators import OperatorProcess, operating
from tests.kube.operator.stage import Stage, eventually
from tests.kube.operator.standin import StandIn

ELASTIC = {"replicas": {"min": 1, "max": 6, "wanted": 2}}


async def scale(stage: Stage, size: int) -> None:
    body = {"spec": {"replicas": size}}
    await stage.client.patch(ELASTIC_JOBS, "digits", body, subresource="scale")


async def sound(stage: Stage, size: int) -> None:
    """Check that there are this many nodes, each of another rank, and no id or name twice."""
    pods = await stage.has_nodes("digits", size)
    nodes = await stage.nodes("digits")
    assert sorted(nodes.values()) == list(range(size))
    assert len({pod["metadata"]["name"] for pod in pods}) == size


async def test_an_operator_killed_in_the_middle_of_a_scale_up_is_carried_on_by_the_next(
    server: ApiServer, stage: Stage, kubelets: StandIn, tmp_path: Path
) -> None:
    flags = ("--no-elect", "-n", stage.client.namespace)
    with operating(server.kubeconfig(), tmp_path, *flags) as first:
        await stage.create("digits", ELASTIC)
        await stage.has_nodes("digits", 2)
        await scale(stage, 6)

        async def begun() -> bool:
            return (await stage.status("digits"))["roles"]["worker"]["wanted"] == 6

        await eventually(begun, "the scale-up to be decided")
        first.end(signal.SIGKILL)
    with operating(server.kubeconfig(), tmp_path, *flags):
        await sound(stage, 6)


async def test_two_operators_that_both_act_make_nothing_twice(
    server: ApiServer, stage: Stage, kubelets: StandIn, tmp_path: Path
) -> None:
    flags = ("--no-elect", "-n", stage.client.namespace)
    with (
        operating(server.kubeconfig(), tmp_path, *flags),
        operating(server.kubeconfig(), tmp_path, *flags),
    ):
        await stage.create("digits", ELASTIC)
        await sound(stage, 2)
        await scale(stage, 6)
        await sound(stage, 6)
        await stage.client.delete(PODS, "digits-worker-5")

        async def replaced() -> bool:
            return sorted(await stage.nodes("digits")) == [0, 1, 2, 3, 4, 6]

        await eventually(replaced, "the deleted node to be replaced, once")
        await sound(stage, 6)


async def test_of_two_that_elect_one_leads_and_the_other_takes_over(
    server: ApiServer, stage: Stage, kubelets: StandIn, tmp_path: Path
) -> None:
    flags = ("-n", stage.client.namespace, "--lease-namespace", stage.client.namespace)
    with operating(server.kubeconfig(), tmp_path, *flags) as first:
        await stage.create("digits", ELASTIC)
        await stage.has_nodes("digits", 2)
        with operating(server.kubeconfig(), tmp_path, *flags):
            first.end(signal.SIGTERM)
            await scale(stage, 4)
            await sound(stage, 4)


async def test_pods_that_went_while_the_api_server_was_away_are_replaced(
    server: ApiServer, stage: Stage, kubelets: StandIn, operator: OperatorProcess
) -> None:
    await stage.create("digits", ELASTIC)
    await stage.has_nodes("digits", 2)
    await stage.has_phase("digits", "Running")
    server.stop()
    server.start()
    await eventually(lambda: stage.job("digits"), "the API server to be back")
    await stage.client.delete(PODS, "digits-worker-0")

    async def replaced() -> bool:
        return sorted(await stage.nodes("digits")) == [1, 2]

    await eventually(replaced, "the deleted node to be replaced")
    assert operator.running


async def test_a_history_that_was_compacted_away_costs_nothing(
    server: ApiServer, stage: Stage, kubelets: StandIn, operator: OperatorProcess
) -> None:
    await stage.create("digits", ELASTIC)
    await stage.has_phase("digits", "Running")
    server.stop()
    server.compact()
    server.start()
    await eventually(lambda: stage.job("digits"), "the API server to be back")
    await scale(stage, 5)
    await sound(stage, 5)
    assert operator.running
