"""Progress output: one line for each stage, with the seconds since the start."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Progress:
    """Prints each stage that is reached; `Progress()` prints nothing."""

    print: Callable[[str], None] = lambda _: None
    begun: float = field(default_factory=time.monotonic)

    def reached(self, what: str) -> None:
        self.print(f"{self.elapsed:6.1f} s  {what}")

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.begun
