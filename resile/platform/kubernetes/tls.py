"""The TLS settings for an API server: trusted authorities and the client certificate.

Without a certificate authority in the kubeconfig the system's are trusted, or those that
``$SSL_CERT_FILE`` and ``$SSL_CERT_DIR`` name, as everywhere with OpenSSL.
"""

from __future__ import annotations

import base64
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from resile.platform.kubernetes.entries import ClusterEntry, UserEntry
from resile.platform.kubernetes.errors import ConfigError

__all__ = ["show_certificate", "tls_context"]


def tls_context(cluster: ClusterEntry, user: UserEntry) -> ssl.SSLContext:
    """Return the TLS settings of all connections to a cluster.

    Raises ConfigError for files that cannot be read, and ssl's errors (SSLError, OSError,
    ValueError) for invalid certificates.
    """
    context = _verifying(cluster)
    context.set_alpn_protocols(["http/1.1"])
    if user.client_certificate or user.client_certificate_data:
        certificate = _content(
            user.client_certificate_data, user.client_certificate, key="client-certificate"
        )
        key = _content(user.client_key_data, user.client_key, key="client-key")
        show_certificate(context, certificate, key)
    return context


def show_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Use this client certificate (PEM) from now on; ssl loads one from files only."""
    with _file_with(certificate) as certificate_file, _file_with(key) as key_file:
        context.load_cert_chain(certificate_file, key_file)


def _verifying(cluster: ClusterEntry) -> ssl.SSLContext:
    given = cluster.certificate_authority_data or cluster.certificate_authority
    if given:
        content = _content(
            cluster.certificate_authority_data,
            cluster.certificate_authority,
            key="certificate-authority",
        )
        with _file_with(content) as file:
            return ssl.create_default_context(cafile=file)
    context = ssl.create_default_context()
    if cluster.insecure_skip_tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _content(data: str | None, path: str | None, *, key: str) -> bytes:
    """Return the data, or the content of the file; if both are given, the data, as in kubectl."""
    if data:
        return base64.b64decode(data)
    if not path:
        return b""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(
            f"the {key!r} that the kubeconfig names cannot be read: {path}: {error.strerror}"
        ) from None


@contextmanager
def _file_with(content: bytes) -> Iterator[str]:
    """A temporary file that only this user can read."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        yield file.name
