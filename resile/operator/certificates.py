"""Issue the certificate of one job's master, signed by an authority that signs nothing else.

The authority's key is discarded once it has signed. So trusting the authority means trusting this
one certificate, at whatever address the master is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["Issued", "issue_certificate"]

LIFETIME = timedelta(days=3650)
"""Longer than any job: an expired certificate would end a running one."""

CLOCKS_DIFFER = timedelta(days=1)
"""A machine whose clock is behind still accepts a new certificate."""


@dataclass(frozen=True)
class Issued:
    """A certificate with its authority and key, all in PEM."""

    authority: str
    certificate: str
    key: str


def issue_certificate(hosts: Sequence[str], *, now: datetime | None = None) -> Issued:
    """Issue a certificate for a server with any of the names ``hosts``."""
    begin = (now or datetime.now(timezone.utc)) - CLOCKS_DIFFER
    signing, serving = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer = _name("Resile job authority")
    authority = (
        _builder(issuer, issuer, signing.public_key(), begin)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(signing, hashes.SHA256())
    )
    certificate = (
        _builder(_name("Resile master"), issuer, serving.public_key(), begin)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts]), critical=False
        )
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()),
            critical=False,
        )
        .sign(signing, hashes.SHA256())
    )
    return Issued(_pem(authority), _pem(certificate), _key_pem(serving))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, begin: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
