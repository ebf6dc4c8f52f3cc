"""Asking the API server, as much of it as this tool needs: a kubeconfig, and GET."""

import base64
import http.client
import json
import ssl
import tempfile
import urllib.request
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import yaml

_PATIENCE = 5.0


@dataclass(frozen=True)
class Account:
    """Where a cluster is and as whom it is asked."""

    url: str
    tls: ssl.SSLContext
    token: str | None


class Api:
    """Reads from one cluster."""

    def __init__(self, kubeconfig: Path) -> None:
        self._account = load_account(kubeconfig)
        # The machine's proxies, if any, do not lead to this cluster.
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}),
            urllib.request.HTTPSHandler(context=self._account.tls),
        )

    def get(self, path: str) -> Any:
        """The object at a path; None when the server is away, not ready or has no such object."""
        text = self._text(path)
        return None if text is None else json.loads(text)

    def is_ready(self) -> bool:
        return self._text("/readyz") == b"ok"

    def ready_nodes(self) -> dict[str, datetime]:
        """The nodes that are Ready, and when they last said so; none when the server is away."""
        document = self.get("/api/v1/nodes") or {"items": []}
        found = {node["metadata"]["name"]: last_ready(node) for node in document["items"]}
        return {name: moment for name, moment in found.items() if moment}

    def _text(self, path: str) -> bytes | None:
        request = urllib.request.Request(self._account.url + path)
        if self._account.token:
            request.add_header("Authorization", f"Bearer {self._account.token}")
        try:
            with self._opener.open(request, timeout=_PATIENCE) as response:
                content: bytes = response.read()
        except (OSError, http.client.HTTPException):
            return None
        return content


def last_ready(node: dict[str, Any]) -> datetime | None:
    """When a Node object that is Ready was last heard of; None for one that is not Ready."""
    for condition in node.get("status", {}).get("conditions", []):
        if condition["type"] == "Ready" and condition["status"] == "True":
            heard = datetime.strptime(condition["lastHeartbeatTime"], "%Y-%m-%dT%H:%M:%SZ")
            return heard.replace(tzinfo=timezone.utc)
    return None


def load_account(kubeconfig: Path) -> Account:
    """What a kubeconfig with embedded credentials says; one cluster, one user."""
    document = yaml.safe_load(kubeconfig.read_text())
    cluster = document["clusters"][0]["cluster"]
    user = document["users"][0]["user"]
    tls = ssl.create_default_context(cadata=_decoded(cluster, "certificate-authority-data"))
    if "client-key-data" in user:
        with tempfile.NamedTemporaryFile("w") as both:
            both.write(_decoded(user, "client-key-data"))
            both.write(_decoded(user, "client-certificate-data"))
            both.flush()
            tls.load_cert_chain(both.name)
    return Account(cluster["server"], tls, user.get("token"))


def _decoded(document: dict[str, str], name: str) -> str:
    return base64.b64decode(document[name]).decode()
