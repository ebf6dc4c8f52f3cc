"""Certificates for tests: a key and a self-signed certificate, for loopback."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

VALID_FOR = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Certificate:
    """Files in PEM format."""

    certificate: Path
    key: Path
    locked_key: Path
    """The same key under a passphrase."""


def make_certificate(
    folder: Path, *, address: str = "127.0.0.1", expired: bool = False
) -> Certificate:
    """A certificate for one address, in files of ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a test's master")])
    begin = datetime.datetime.now(datetime.timezone.utc) - (3 if expired else 1) * VALID_FOR
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + 2 * VALID_FOR)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    files = Certificate(folder / "cert.pem", folder / "key.pem", folder / "locked.pem")
    files.certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    files.key.write_bytes(_pem(key, serialization.NoEncryption()))
    files.locked_key.write_bytes(_pem(key, serialization.BestAvailableEncryption(b"secret")))
    return files


def _pem(
    key: ec.EllipticCurvePrivateKey, encryption: serialization.KeySerializationEncryption
) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
    )
