"""What a keeper wants of other nodes' keepers, and the answer of one that has none.

The seam between a keeper and the network: `peers` is what lies behind it under an agent.
"""

from __future__ import annotations

from typing import Protocol

from resile.checkpoint.keeping.errors import PeerTrouble
from resile.checkpoint.slots import Label, Place

__all__ = ["Coming", "Neighbourhood", "NoNeighbours"]


class Coming(Protocol):
    """A part on its way."""

    @property
    def number(self) -> int:
        """To ask how far it is."""
        ...

    def opened(self) -> tuple[int, int]:
        """A descriptor of its memory, the caller's to close, and its size; raises
        :class:`PeerTrouble` or :class:`NoRoom` if it does not come."""
        ...


class Neighbourhood(Protocol):
    """Other nodes' keepers."""

    @property
    def address(self) -> str:
        """Where they reach this one; empty if they do not."""
        ...

    @property
    def next(self) -> str:
        """Where copies go; empty for nowhere."""
        ...

    @property
    def copied(self) -> int | None:
        """The newest step of which every part of this node was copied."""
        ...

    @property
    def pending(self) -> bool:
        """Whether parts of this node are still to be copied."""
        ...

    @property
    def trouble(self) -> str:
        """Why the latest copy did not come about; empty if it did."""
        ...

    def turn_to(self, address: str) -> None:
        """Send copies there from now on; empty for nowhere."""
        ...

    def send(self, label: Label, *, parts: int) -> None:
        """Copy a part to the next node in the background; it is one of ``parts`` of this node."""
        ...

    def wanted(self, place: Place, step: int) -> None:
        """A worker waits for the memory of a part, to save ``step`` there."""
        ...

    def workers_hold(self, holding: bool) -> None:
        """Whether workers hold still for a planned change, and wait for what is moved."""
        ...

    def forget_after(self, step: int) -> None:
        """Training goes on from ``step``: copy no later one."""
        ...

    def fetch(self, address: str, label: Label) -> Coming | None:
        """Have a part come into this node's memory; None if it is here already."""
        ...

    def arrived(self, number: int, until: int) -> int:
        """How many bytes of what comes are here, once at least ``until`` are; raises the same as
        :meth:`Coming.opened`."""
        ...

    def headers(self, address: str, labels: tuple[Label, ...]) -> tuple[bytes, ...]:
        """The headers of parts held there, empty for one that is not; raises the same."""
        ...

    def settle(self) -> None:
        """Nobody restores any more: what was only looked up for that may be forgotten."""
        ...

    def close(self) -> None:
        """Stop listening and sending."""
        ...


class NoNeighbours:
    """A keeper that is alone."""

    address = ""
    next = ""
    copied = None
    pending = False
    trouble = ""

    def turn_to(self, address: str) -> None:
        """There is nobody to send to."""

    def send(self, label: Label, *, parts: int) -> None:
        """There is nobody to send to."""

    def wanted(self, place: Place, step: int) -> None:
        """Nothing is being copied."""

    def workers_hold(self, holding: bool) -> None:
        """Nothing is being moved."""

    def forget_after(self, step: int) -> None:
        """Nothing is copied."""

    def fetch(self, address: str, label: Label) -> Coming | None:
        """Nothing can be had."""
        raise PeerTrouble(f"{label.name} is at {address}, and this node has no agent to fetch it")

    def arrived(self, number: int, until: int) -> int:
        """Nothing comes."""
        raise PeerTrouble(f"nothing was fetched as number {number}, {until} bytes or less")

    def headers(self, address: str, labels: tuple[Label, ...]) -> tuple[bytes, ...]:
        """Nothing can be had."""
        raise PeerTrouble(
            f"{len(labels)} parts are at {address}, and this node has no agent to look at them"
        )

    def settle(self) -> None:
        """Nothing was looked up."""

    def close(self) -> None:
        """There is nothing to end."""
