"""The interface between a snapshot server and those of other nodes, and its null implementation.

This is the seam between the server and the network: under an agent, `peers` implements it.
"""

from __future__ import annotations

from typing import Protocol

from resile.snapshots.errors import PeerError
from resile.snapshots.slots import Label, PartPlace

__all__ = ["FetchedPart", "PeerApi", "NoPeers"]


class FetchedPart(Protocol):
    """A part that is being received."""

    @property
    def number(self) -> int:
        """Identifies it in :meth:`PeerApi.arrived`."""
        ...

    def opened(self) -> tuple[int, int]:
        """A descriptor of its memory, which the caller must close, and its size; raises
        :class:`PeerError` or :class:`NoMemoryForSnapshot` if it cannot be fetched."""
        ...


class PeerApi(Protocol):
    """The snapshot servers of other nodes."""

    @property
    def address(self) -> str:
        """The address at which they reach this one; empty if they cannot."""
        ...

    @property
    def next(self) -> str:
        """The address that copies go to; empty for none."""
        ...

    @property
    def copied(self) -> int | None:
        """The newest step of which every part of this node has been copied."""
        ...

    @property
    def pending(self) -> bool:
        """Whether parts of this node remain to be copied."""
        ...

    @property
    def trouble(self) -> str:
        """The error of the latest copy; empty if it succeeded."""
        ...

    def set_endpoint(self, address: str) -> None:
        """Send copies to this address from now on; empty for none."""
        ...

    def send(self, label: Label, *, parts: int) -> None:
        """Copy a part to the next node in the background; it is one of ``parts`` of this node."""
        ...

    def wanted(self, place: PartPlace, step: int) -> None:
        """A worker waits for the memory of a part, to save ``step`` in it."""
        ...

    def workers_hold(self, holding: bool) -> None:
        """Whether workers hold for a handover, and so wait for transfers."""
        ...

    def forget_after(self, step: int) -> None:
        """Training continues from ``step``: do not copy later ones."""
        ...

    def fetch(self, address: str, label: Label) -> FetchedPart | None:
        """Start to fetch a part into this node's memory; None if it is here already."""
        ...

    def arrived(self, number: int, until: int) -> int:
        """Wait until at least ``until`` bytes of a fetched part are here, and return their number;
        raises the same as :meth:`FetchedPart.opened`."""
        ...

    def headers(self, address: str, labels: tuple[Label, ...]) -> tuple[bytes, ...]:
        """The headers of parts held there, empty for missing ones; raises the same."""
        ...

    def settle(self) -> None:
        """Restoring is over: drop what was cached for it."""
        ...

    def close(self) -> None:
        """Stop listening and sending."""
        ...


class NoPeers:
    """A :class:`PeerApi` without other nodes."""

    address = ""
    next = ""
    copied = None
    pending = False
    trouble = ""

    def set_endpoint(self, address: str) -> None:
        """There is no node to send to."""

    def send(self, label: Label, *, parts: int) -> None:
        """There is no node to send to."""

    def wanted(self, place: PartPlace, step: int) -> None:
        """Nothing is being copied."""

    def workers_hold(self, holding: bool) -> None:
        """Nothing is being transferred."""

    def forget_after(self, step: int) -> None:
        """Nothing is copied."""

    def fetch(self, address: str, label: Label) -> FetchedPart | None:
        """There is no node to fetch from."""
        raise PeerError(f"{label.name} is at {address}, and this node has no agent to fetch it")

    def arrived(self, number: int, until: int) -> int:
        """Nothing is being received."""
        raise PeerError(f"no fetch has number {number} ({until} bytes were requested)")

    def headers(self, address: str, labels: tuple[Label, ...]) -> tuple[bytes, ...]:
        """There is no node to fetch from."""
        raise PeerError(
            f"{len(labels)} parts are at {address}, and this node has no agent to fetch headers"
        )

    def settle(self) -> None:
        """Nothing was cached."""

    def close(self) -> None:
        """There is nothing to close."""
