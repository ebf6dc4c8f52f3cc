"""The DNS entries of the cluster, built from Services and Endpoints. Pure.

The name of an ordinary service resolves to its cluster IP; that of a headless one to the addresses
of its endpoints, and each endpoint with a hostname also has its own name below the service's. The
endpoints controller decides which endpoints are listed, also before they are ready. Names that
would need other records (ExternalName services, named ports) are left out.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from devcluster.layout import CLUSTER_DOMAIN

_HEADLESS = "None"


def hosts(services: Iterable[Mapping[str, Any]], endpoints: Iterable[Mapping[str, Any]]) -> str:
    """The text of a hosts file, in a deterministic order."""
    headless: set[tuple[str, str]] = set()
    lines: set[str] = set()
    for service in services:
        address = service["spec"].get("clusterIP")
        if address == _HEADLESS:
            headless.add(_key(service))
        elif address:
            lines.add(f"{address} {_domain(service)}")
    for one in endpoints:
        if _key(one) in headless:
            lines |= set(_endpoint_lines(one))
    return "".join(f"{line}\n" for line in sorted(lines))


def _endpoint_lines(endpoints: Mapping[str, Any]) -> Iterable[str]:
    domain = _domain(endpoints)
    for subset in endpoints.get("subsets") or ():
        for address in subset.get("addresses") or ():
            yield f"{address['ip']} {domain}"
            if hostname := address.get("hostname"):
                yield f"{address['ip']} {hostname}.{domain}"


def _key(item: Mapping[str, Any]) -> tuple[str, str]:
    return item["metadata"]["namespace"], item["metadata"]["name"]


def _domain(item: Mapping[str, Any]) -> str:
    namespace, name = _key(item)
    return f"{name}.{namespace}.svc.{CLUSTER_DOMAIN}"
