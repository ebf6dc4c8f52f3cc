"""A minimal client of the API server: reads a kubeconfig and sends GET requests."""

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
    """The URL of a cluster and the credentials for it."""

    url: str
    tls: ssl.SSLContext
    token: str | None


class Api:
    """Reads from one cluster."""

    def __init__(self, kubeconfig: Path) -> None:
        self._account = load_account(kubeconfig)
        # The machine's proxies, if any, do not reach this cluster.
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}),
            urllib.request.HTTPSHandler(context=self._account.tls),
        )

    def get(self, path: str) -> Any:
        """Return the object at a path; None if it does not exist or the server is not ready."""
        text = self._text(path)
        return None if text is None else json.loads(text)

    def is_ready(self) -> bool:
        return self._text("/readyz") == b"ok"

    def ready_nodes(self) -> dict[str, datetime]:
        """The Ready nodes with their last heartbeat; empty if the server is unavailable."""
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
    """The last heartbeat of a Node object; None if it is not Ready."""
    for condition in node.get("status", {}).get("conditions", []):
        if condition["type"] == "Ready" and condition["status"] == "True":
            heard = datetime.strptime(condition["lastHeartbeatTime"], "%Y-%m-%dT%H:%M:%SZ")
            return heard.replace(tzinfo=timezone.utc)
    return None


def load_account(kubeconfig: Path) -> Account:
    """Read a kubeconfig with embedded credentials, for one cluster and one user."""
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
