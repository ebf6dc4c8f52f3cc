"""Queries to a registry, here a small server that responds like one."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from devcluster.errors import BuildFailed
from devcluster.images.registry import digest_of, require


class Answers(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        known = self.path in ("/v2/", "/v2/team/resile/manifests/dev")
        self.send_response(200 if known else 404)
        self.send_header("Docker-Content-Digest", "sha256:1")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def host() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_an_image_that_is_there_has_a_digest(host: str) -> None:
    require(host)
    assert digest_of(f"{host}/team/resile:dev") == "sha256:1"


def test_an_image_that_is_not_there_has_none(host: str) -> None:
    assert digest_of(f"{host}/team/resile:other") is None


def test_without_a_registry_the_error_says_what_to_do(host: str) -> None:
    # Port 1 of loopback: nothing listens there.
    with pytest.raises(BuildFailed, match="make cluster"):
        require("127.0.0.1:1")
