"""Any value of a flag leads to a usage error that names it, or to a job that can run."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resile.cli.commands.master import master
from resile.cli.commands.run import _about_this_node, _local_address, run
from resile.cli.options.nproc import count_processes
from resile.cli.options.rdzv import find_place
from resile.job.limits import MAX_NODES
from resile.wire.codec import decode_from_agent, encode_from_agent
from resile.wire.endpoint import EndpointError
from resile.wire.messages import Hello, NodeInfo
from tests.unit.cli.commands import parsed

FLAGS = (
    *("--nnodes", "--nproc-per-node", "--max-restarts", "--node-unit", "--node-rank"),
    *("--master-port", "--shutdown-timeout", "--restart-grace", "--connect-timeout"),
    *("--role", "--rdzv-id", "--local-addr", "--local-ranks-filter", "--rdzv-endpoint"),
)
KEYS = ("lease", "join_timeout", "last_call", "start_timeout", "max_restarts", "node_unit")

values = st.one_of(
    st.integers().map(str),
    st.floats().map(str),
    st.text(st.characters(exclude_characters="\0"), max_size=12),
    st.sampled_from(["10" * 3000, "1e308", "nan", "inf", "-0.0", "0", "1:99999999", "\udcff"]),
    st.sampled_from([10**20, 10**23, 2**63, 2**70, MAX_NODES + 1]).map(str),
    st.just("x" * 5000),
)
settings_given = st.tuples(st.sampled_from(KEYS), values).map(
    lambda pair: f"--rdzv-conf={pair[0]}={pair[1]}"
)
flags_given = st.tuples(st.sampled_from(FLAGS), values).map(lambda pair: f"{pair[0]}={pair[1]}")


@settings(max_examples=300, deadline=None)
@given(st.lists(flags_given | settings_given, min_size=1, max_size=2))
def test_any_value_of_a_flag_is_refused_by_name_or_can_run(words: list[str]) -> None:
    try:
        found = parsed(run, [*words, "train.py"])
        workers = count_processes(found["nproc_per_node"])
        address = _local_address(found["local_addr"]) or "127.0.0.1"
        placed = {**found, "standalone": not found["rdzv_endpoint"]}
        place = find_place(placed, max_nodes=found["elasticity"].max_nodes)
        about = _about_this_node(found)
    except (click.UsageError, EndpointError):
        return
    for name in ("restart_grace", "shutdown_timeout", "connect_timeout"):
        seconds = about[name] or 0.0
        assert math.isfinite(seconds)
        assert datetime.now() + timedelta(seconds=seconds)
    info = NodeInfo(
        name=about["name"],
        role=about["role"],
        host="h",
        address=address,
        nproc=workers,
        rank=about["node_rank"],
    )
    hello = Hello(job=place.run_id, info=info, elasticity=found["elasticity"])
    assert decode_from_agent(encode_from_agent(1, hello)).body == hello


@pytest.mark.parametrize(
    "words",
    [
        ("--node-rank", str(10**23)),
        ("--max-restarts", str(10**20)),
        ("--restart-grace", "nan"),
        ("--connect-timeout", "1e308"),
        ("--node-unit", str(2**70)),
        ("--master-port", "99999"),
        ("--nnodes", "1:100000"),
        ("--rdzv-conf", "lease=0.01"),
        ("--rdzv-conf", "join_timeout=1e308"),
        ("--rdzv-conf", f"max_restarts={10**20}"),
    ],
)
def test_what_cannot_run_is_a_usage_error(words: tuple[str, str]) -> None:
    name = words[1].partition("=")[0] if words[0] == "--rdzv-conf" else words[0]
    with pytest.raises(click.UsageError) as caught:
        parsed(run, [*words, "train.py"])
    option = getattr(caught.value, "param", None)
    assert name in (option.opts if option is not None else caught.value.message)


def test_a_master_has_the_same_bounds() -> None:
    with pytest.raises(click.BadParameter):
        parsed(master, ["--max-restarts", str(10**20)])
    with pytest.raises(click.BadParameter):
        parsed(master, ["--after-round", str(10**20)])
