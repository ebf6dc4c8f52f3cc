"""etcds:// uses TLS, and only with an etcd it can trust."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from resile.master.store.base import StoreUnusable
from resile.master.store.etcd import EtcdStore
from tests.local.etcd.server import EtcdServer


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A self-signed certificate for loopback, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.timezone.utc)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = tmp_path / "etcd.pem", tmp_path / "etcd.key"
    paths[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return paths


@pytest.fixture
def etcd(tmp_path: Path, certificate: tuple[Path, Path]) -> Iterator[EtcdServer]:
    server = EtcdServer(tmp_path, certificate=certificate)
    server.start()
    yield server
    server.stop()


async def test_an_etcd_with_a_trusted_certificate_is_used(
    etcd: EtcdServer, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    store = EtcdStore.at(etcd.url)
    assert await store.load() == {}
    await store.commit({"job": b"x"})
    await store.close()


async def test_an_etcd_with_an_unknown_certificate_is_not(etcd: EtcdServer) -> None:
    store = EtcdStore.at(f"{etcd.url}?patience=0.5")
    with pytest.raises(StoreUnusable, match=r"did not answer .* [Cc]ertificate"):
        await store.load()
