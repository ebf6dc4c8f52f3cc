"""The addresses of a job's nodes on this machine: ports for each rank, a file, variables.

Everything is on disk before a node that needs it is started: first the ports, then the file.
"""

from __future__ import annotations

from collections.abc import Iterable

from resile.job.addresses import (
    Addresses,
    Place,
    address_variables,
    encode_addresses,
    local_addresses,
    ranks_to_list,
)
from resile.job.node import Node
from resile.job.spec import ElasticJob
from resile.job.status import JobStatus
from resile.platform.local.jobfolder import JobFolder
from resile.platform.local.ports import PortBook

__all__ = ["LocalAddressing"]


class LocalAddressing:
    """The addresses of one job in which a role has ports."""

    def __init__(self, folder: JobFolder) -> None:
        self._folder = folder
        self._book: PortBook | None = None
        self._written = b""

    def update(
        self, job: ElasticJob, status: JobStatus, *, starting: Iterable[Node] = ()
    ) -> Addresses:
        """Return the current addresses, with those of nodes that are about to start; replace the
        file if they changed. Raises FolderUnusable if it cannot be written, and NoPortError without
        a free port."""
        ranks = ranks_to_list(job, status)
        with self._folder.usable():
            book = self._book = self._book or self._folder.port_book()
            book.reserve(
                {
                    (role, rank): job.spec.roles[role].ports
                    for role, each in ranks.items()
                    for rank in each
                }
            )
            for node in starting:
                book.starting((node.role, node.rank))
        addresses = local_addresses(job, ranks, ports=book.ports)
        text = encode_addresses(addresses)
        if text != self._written:
            self._folder.write_addresses(text)
            self._written = text
        return addresses

    def variables(self, addresses: Addresses, node: Node) -> dict[str, str]:
        """Return a node's environment variables with its addresses."""
        place = Place(role=node.role, rank=node.rank)
        return address_variables(addresses, place, file=str(self._folder.addresses.absolute()))
