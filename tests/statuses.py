"""A job's status as JSON, as it is stored in a cluster between two reconciliations."""

from __future__ import annotations

import msgspec

from resile.decoding import decode_json
from resile.job.status import JobStatus


def encode_status(status: JobStatus) -> bytes:
    """The status as JSON."""
    return msgspec.json.encode(status)


def decode_status(data: bytes | str) -> JobStatus:
    """A status from JSON, including unknown fields."""
    return decode_json(data, JobStatus)
