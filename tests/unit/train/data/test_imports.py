"""The cost of importing a sampler, which every worker pays after every restart."""

from __future__ import annotations

import subprocess
import sys

import pytest

import resile.train.data

SCRIPT = """
import sys
from resile import Checkpointer, ElasticBatchSampler, ElasticSampler, open_dataset, report
print(sorted({"aiohttp", "psutil"} & set(sys.modules)))
from resile import ShardClient, ShardedDataset
print(sorted({"aiohttp"} & set(sys.modules)))
"""


def test_a_network_client_is_imported_only_for_leased_shards() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.splitlines() == ["[]", "['aiohttp']"]


def test_all_names_are_there() -> None:
    for name in resile.train.data.__all__:
        assert getattr(resile.train.data, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Shards'"):
        _ = resile.train.data.Shards  # type: ignore[attr-defined]
