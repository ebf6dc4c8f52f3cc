"""Query the registry: our records may outlive its images, and its images our records."""

import http.client

from devcluster.errors import BuildFailed

# Loopback responds at once; a registry that takes longer hangs.
_TIMEOUT = 5.0

_MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)


def digest_of(reference: str) -> str | None:
    """The digest behind ``host:port/name:tag``, or None if the registry has no such image."""
    host, _, rest = reference.partition("/")
    name, _, tag = rest.rpartition(":")
    status, digest = _head(host, f"/v2/{name}/manifests/{tag}")
    return digest if status == http.client.OK else None


def require(host: str) -> None:
    """Raise BuildFailed unless a registry responds, to fail before a long build, not after it."""
    status, _ = _head(host, "/v2/")
    if status != http.client.OK:
        raise BuildFailed(f"what listens on {host} is no open registry: it answers {status}")


def _head(host: str, path: str) -> tuple[int, str | None]:
    connection = http.client.HTTPConnection(host, timeout=_TIMEOUT)
    try:
        connection.request("HEAD", path, headers={"Accept": ", ".join(_MANIFESTS)})
        response = connection.getresponse()
        return response.status, response.getheader("Docker-Content-Digest")
    except OSError as error:
        raise BuildFailed(
            f"no registry on {host} ({error}): `make cluster` starts one, "
            "and --archive FOLDER does without"
        ) from error
    finally:
        connection.close()
