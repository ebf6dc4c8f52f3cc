"""Selecting the proxy, from a kubeconfig and from the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from resile.kube.errors import ConfigError
from resile.kube.kubeconfig import ClusterConfig, ClusterEntry, UserEntry
from resile.kube.transport import proxy_for

PROXIES = {"https": "http://secure:3128", "http": "http://plain:3128"}


def cluster(server: str, *, proxy: str | None = None) -> ClusterConfig:
    entry = ClusterEntry(server=server, proxy_url=proxy)
    return ClusterConfig("one", entry, UserEntry(), file=Path("/home/me/config"))


@pytest.mark.parametrize(
    ("server", "environment", "expected"),
    [
        ("https://one.example", {}, None),
        ("https://one.example", PROXIES, "http://secure:3128"),
        ("http://one.example", PROXIES, "http://plain:3128"),
        ("https://one.example", {"all": "any:3128"}, "http://any:3128"),
        ("https://one.example", {"all": "http://any", "https": "http://secure"}, "http://secure"),
    ],
)
def test_the_environments_proxy_is_the_schemes_or_the_one_for_all(
    server: str, environment: dict[str, str], expected: str | None
) -> None:
    assert proxy_for(cluster(server), environment) == expected


def test_the_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://secure:3128")
    assert proxy_for(cluster("https://one.example")) == "http://secure:3128"
    monkeypatch.setenv("NO_PROXY", "one.example")
    assert proxy_for(cluster("https://one.example")) is None


def test_a_clusters_own_proxy_goes_first_and_knows_no_exceptions() -> None:
    config = cluster("https://one.example", proxy="https://own:8443")
    assert proxy_for(config, {**PROXIES, "no": "*"}) == "https://own:8443"


@pytest.mark.parametrize(
    ("listed", "server", "excepted"),
    [
        ("*", "https://one.example", True),
        ("other.example, one.example", "https://one.example:6443", True),
        ("ONE.example", "https://one.EXAMPLE", True),
        ("example", "https://one.example", True),
        ("one.example", "https://none.example", False),
        ("ne.example", "https://one.example", False),
        (".example", "https://one.example", True),
        (".one.example", "https://one.example", False),
        ("*.example", "https://one.example", True),
        ("one.example:6443", "https://one.example:6443", True),
        ("one.example:443", "https://one.example", True),
        ("one.example:443", "https://one.example:6443", False),
        ("10.0.0.0/8", "https://10.96.0.1:443", True),
        ("10.0.0.0/8", "https://11.0.0.1", False),
        ("10.0.0.0/8", "https://one.example", False),
        ("10.96.0.1", "https://10.96.0.1", True),
        ("10.96.0.1:6443", "https://10.96.0.1", False),
        ("fd00::/8", "https://[fd00::1]:6443", True),
        ("::1", "https://[::1]:6443", True),
        ("[::1]", "https://[::1]:6443", True),
        ("[::1]:6443", "https://[::1]:6443", True),
        (",", "https://one.example", False),
    ],
)
def test_exceptions_are_names_addresses_and_networks(
    listed: str, server: str, excepted: bool
) -> None:
    found = proxy_for(cluster(server), {"all": "http://any", "no": listed})
    assert found == (None if excepted else "http://any")


@pytest.mark.parametrize(
    ("proxy", "why"),
    [
        ("socks5://me:1080", "its scheme is 'socks5', and only http and https proxies"),
        ("me:1080", "its scheme is 'me'"),
        ("http://", "it has no host"),
        ("http://me:port", "could not be cast to integer"),
    ],
)
def test_a_proxy_that_cannot_be_used_is_told_with_its_setting(proxy: str, why: str) -> None:
    config = cluster("https://one.example", proxy=proxy)
    start = r"the 'proxy-url' in /home/me/config \(context 'one'\) cannot be used: .*"
    with pytest.raises(ConfigError, match=start + why):
        proxy_for(config, {})


def test_so_is_one_of_the_environment() -> None:
    with pytest.raises(ConfigError, match=r"the proxy in \$ALL_PROXY cannot be used: .*'socks5h'"):
        proxy_for(cluster("https://one.example"), {"all": "socks5h://me:1080"})
