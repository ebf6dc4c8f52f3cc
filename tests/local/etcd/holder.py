"""A process that holds a store and commits on request, to be stopped and killed by tests.

Each line of its input is ``KEYS VALUE``: commit this many keys with this value. The response to
each is ``ok`` or the name of the error and its text.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from resile.master.store.base import StoreError
from resile.master.store.etcd import EtcdStore

ROOT = Path(__file__).parents[3]


class Holder:
    """The process as used by a test; killed when the test ends."""

    def __init__(self, url: str, *, lease: int = 5) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.local.etcd.holder", f"{url}?lease={lease}"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Holder:
        assert self.said() == "loaded"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill()
        self._process.__exit__(kind, error, traceback)

    def commit(self, *, keys: int, value: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{keys} {value}\n")
        self._process.stdin.flush()

    def said(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().rstrip("\n")

    def signal(self, name: signal.Signals) -> None:
        self._process.send_signal(name)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


async def hold(url: str) -> None:
    store = EtcdStore.at(url)
    await store.load()
    print("loaded", flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        count, value = line.split()
        try:
            await store.commit({f"key/{n:06d}": value.encode() for n in range(int(count))})
        except StoreError as error:
            print(f"{type(error).__name__}: {error}", flush=True)
        else:
            print("ok", flush=True)


if __name__ == "__main__":
    asyncio.run(hold(sys.argv[1]))
