"""A certificate authority for one cluster, and the certificates it signs.

A component's certificate identifies it to the API server: the common name is the user, the
organisation its group. Keys are on the P-256 curve and take a millisecond to generate.
"""

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# Clusters live for hours; one that is kept for longer should not fail for this reason.
_VALID = datetime.timedelta(days=3650)
# A clock that was set back a little should not make the cluster's certificates invalid.
_LEEWAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, both as PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """Signs certificates with the cluster's own key."""

    def __init__(self, pair: Pair) -> None:
        key = serialization.load_pem_private_key(pair.key, password=None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        self.pair = pair
        self._key = key
        self._certificate = x509.load_pem_x509_certificate(pair.certificate)

    @classmethod
    def create(cls) -> "Authority":
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("resile-cluster-ca")
        usage = x509.KeyUsage(
            digital_signature=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        certificate = (
            _draft(name, key)
            .issuer_name(name)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .sign(key, hashes.SHA256())
        )
        return cls(Pair(_pem(certificate), private_pem(key)))

    def client(self, user: str, *, group: str | None = None) -> Pair:
        """Sign a client certificate, for the API server's clients or for its calls to kubelets."""
        key = ec.generate_private_key(ec.SECP256R1())
        return self._signed(_draft(_name(user, group), key), key, ExtendedKeyUsageOID.CLIENT_AUTH)

    def server(self, name: str, *, hosts: Sequence[str], addresses: Sequence[str]) -> Pair:
        """Sign a server certificate for these host names and addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [
            *(x509.DNSName(host) for host in hosts),
            *(x509.IPAddress(ipaddress.ip_address(address)) for address in addresses),
        ]
        draft = _draft(_name(name), key).add_extension(
            x509.SubjectAlternativeName(names), critical=False
        )
        return self._signed(draft, key, ExtendedKeyUsageOID.SERVER_AUTH)

    def _signed(
        self,
        draft: x509.CertificateBuilder,
        key: ec.EllipticCurvePrivateKey,
        usage: x509.ObjectIdentifier,
    ) -> Pair:
        certificate = (
            draft.issuer_name(self._certificate.subject)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return Pair(_pem(certificate), private_pem(key))


def key_pair() -> tuple[bytes, bytes]:
    """Generate a private and a public key without a certificate, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return private_pem(key), public


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _draft(name: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _LEEWAY)
        .not_valid_after(now + _VALID)
    )


def _name(user: str, group: str | None = None) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, user)]
    if group:
        parts.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
    return x509.Name(parts)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
