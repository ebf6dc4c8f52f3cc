"""Addresses as users write them."""

from __future__ import annotations

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resile.wire.endpoint import (
    DEFAULT_PORT,
    Endpoint,
    EndpointError,
    address_towards,
    free_port,
    is_loopback,
    is_this_machine,
    parse_endpoint,
)


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("127.0.0.1:29400", Endpoint("127.0.0.1", 29400)),
        ("host", Endpoint("host", DEFAULT_PORT)),
        ("host:", Endpoint("host", DEFAULT_PORT)),
        (" host:1 ", Endpoint("host", 1)),
        ("[::1]:5", Endpoint("::1", 5)),
        ("[::1]", Endpoint("::1", DEFAULT_PORT)),
        ("::1", Endpoint("::1", DEFAULT_PORT)),
        ("host:0", Endpoint("host", 0)),
        ("host:65535", Endpoint("host", 65535)),
        ("*:5", Endpoint("*", 5)),
    ],
)
def test_what_users_write_is_understood(text: str, endpoint: Endpoint) -> None:
    assert parse_endpoint(text) == endpoint


@pytest.mark.parametrize(("host", "taken"), [("*", None), ("0.0.0.0", "0.0.0.0"), ("::1", "::1")])
def test_a_server_is_told_of_every_address_by_none(host: str, taken: str | None) -> None:
    assert Endpoint(host, 1).listening_host == taken


@pytest.mark.parametrize(
    "text",
    ["", ":1", "host:x", "host:-1", "host:65536", "host:²", "host:1e3", "host:" + "9" * 9999],
)
def test_what_is_no_endpoint_is_said_to_be_none(text: str) -> None:
    with pytest.raises(EndpointError):
        parse_endpoint(text)


@given(st.text(max_size=40))
def test_any_text_is_an_endpoint_or_an_error_of_ours(text: str) -> None:
    try:
        endpoint = parse_endpoint(text)
    except EndpointError:
        return
    assert endpoint.host
    assert 0 <= endpoint.port <= 65535


@given(st.ip_addresses(), st.integers(1, 65535))
def test_an_endpoint_is_read_back_from_what_is_shown(address: object, port: int) -> None:
    endpoint = Endpoint(str(address), port)
    assert parse_endpoint(str(endpoint)) == endpoint


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost", "::1"])
def test_loopback_is_this_machine(host: str) -> None:
    assert is_this_machine(host)


def test_an_address_of_nobodys_is_not_this_machine() -> None:
    assert not is_this_machine("203.0.113.77")


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a..b", "x" * 70 + ".example"])
def test_a_name_that_leads_nowhere_is_an_error_of_ours(host: str) -> None:
    with pytest.raises(EndpointError, match="cannot be resolved"):
        is_this_machine(host)
    with pytest.raises(EndpointError, match="cannot be reached"):
        address_towards(Endpoint(host, 1))


@pytest.mark.parametrize(
    ("host", "answer"),
    [
        *(("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True)),
        *(("0.0.0.0", False), ("::", False), ("192.0.2.1", False), ("node-1", False)),
    ],
)
def test_loopback_is_told_from_the_network(host: str, answer: bool) -> None:
    assert is_loopback(host) is answer


def test_the_way_to_loopback_is_loopback() -> None:
    assert address_towards(Endpoint("127.0.0.1", 1)) == "127.0.0.1"


def test_a_free_port_can_be_bound() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", free_port()))
