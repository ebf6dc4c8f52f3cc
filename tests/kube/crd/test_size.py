"""The largest possible job, as one object of a real API server."""

from __future__ import annotations

import json

import msgspec

from resile.job.compact_status import compact, packed, unpacked
from resile.job.limits import MAX_MANIFEST_BYTES
from resile.job.manifest.parse import job_from_data
from resile.job.node import NodePhase
from tests.kube.crd.conftest import Cluster
from tests.kube.crd.test_crd import as_text, job
from tests.statuses import decode_status
from tests.unit.job.test_compact_status import worst


def test_the_worst_status_of_the_longest_manifest_is_taken(cluster: Cluster) -> None:
    """Even with kubectl's copy of the manifest, as long as an annotation may be."""
    data = job("largest", {"env": {f"K{n}": "x" * 200 for n in range(900)}, "image": "i"})
    spec = job_from_data(data)
    assert MAX_MANIFEST_BYTES * 0.7 < len(msgspec.json.encode(spec)) <= MAX_MANIFEST_BYTES
    cluster.kubectl("apply", "-f", "-", stdin=as_text(data))
    status = compact(worst(NodePhase.PENDING))
    cluster.write_status("largest", json.loads(msgspec.json.encode(packed(status))))
    found = cluster.get("largest")["status"]
    assert unpacked(decode_status(msgspec.json.encode(found))) == status
    cluster.kubectl("delete", "ej", "largest")
