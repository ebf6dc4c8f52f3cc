"""Debian packages for building and running the cluster, installed when missing.

Several of them would start an unwanted service (containerd, docker-registry); a policy file, which
exists during the installation, prevents that.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from devcluster.commands import run
from devcluster.errors import CommandFailed

TO_BUILD = ("golang-go", "make", "rsync", "jq", "dpkg-dev")
TO_RUN = (
    *("containerd", "runc", "containernetworking-plugins", "iptables", "conntrack", "iproute2"),
    *("buildah", "skopeo", "docker-registry", "dnsmasq-base", "debootstrap", "gcc", "libc6-dev"),
)

_POLICY = Path("/usr/sbin/policy-rc.d")
_START_NOTHING = "#!/bin/sh\n# Written by devcluster for the time of an installation.\nexit 101\n"


def missing(packages: Sequence[str]) -> list[str]:
    """Return the packages that are not installed."""
    try:
        listed = run("dpkg-query", "--show", "--showformat=${Package} ${Status}\n", *packages)
    except CommandFailed as error:  # Some packages are unknown; the others are still listed.
        listed = error.output
    lines = [line.split() for line in listed.splitlines()]
    installed = {line[0] for line in lines if line[1:] == ["install", "ok", "installed"]}
    return [package for package in packages if package not in installed]


def install(packages: Sequence[str]) -> None:
    """Install with apt, without recommended packages and without starting anything."""
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with _no_services():
        run("apt-get", "update", "--quiet", env=env)
        command = ("apt-get", "install", "--yes", "--quiet", "--no-install-recommends")
        run(*command, *packages, env=env)


@contextmanager
def _no_services() -> Iterator[None]:
    if not _POLICY.exists():
        _POLICY.write_text(_START_NOTHING)
        _POLICY.chmod(0o755)
    try:
        yield
    finally:
        if _POLICY.read_text() == _START_NOTHING:
            _POLICY.unlink()
