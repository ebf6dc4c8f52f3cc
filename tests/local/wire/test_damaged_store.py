"""A master whose store is damaged reports it, and how to start without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from resile.master.records import JOB_KEY
from resile.master.store.sqlite import SqliteStore
from tests.local.wire.masters import resile


@pytest.mark.parametrize("value", [b"\xff", b"\x81\xa3job" + b"\x91" * 2000, "a text", b""])
async def test_a_record_that_no_master_wrote_is_told(tmp_path: Path, value: bytes) -> None:
    path = tmp_path / "job.db"
    store = SqliteStore(path)
    await store.load()
    await store.commit({JOB_KEY: value})
    await store.close()
    done = resile(tmp_path, "master", "--endpoint", "127.0.0.1:0", "--store", str(path))
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "the records in the store are damaged" in done.stderr
    assert f"remove {path}" in done.stderr
