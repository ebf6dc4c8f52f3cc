"""A job's Secret: valid and rejected content."""

from __future__ import annotations

import base64
import ssl
from datetime import datetime, timedelta, timezone

import pytest
from cryptography import x509

from resile.operator.build.master import JobSecret, read_secret
from resile.operator.certificates import LIFETIME, Issued, issue_certificate
from resile.wire.auth import read_token_of


@pytest.fixture(scope="module")
def issued() -> Issued:
    return issue_certificate(("digits-master.team.svc", "digits-master"))


def as_object(data: dict[str, str]) -> dict[str, object]:
    """A Secret as returned by the API server."""
    return {"data": {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}}


def test_what_is_written_is_read(issued: Issued) -> None:
    secret = JobSecret("token", issued.authority, issued.certificate, issued.key)
    assert read_secret(as_object(secret.data)) == secret
    assert secret.has_tls
    context = secret.client_context()
    assert context is not None
    assert context.verify_mode is ssl.CERT_REQUIRED


def test_a_secret_of_a_job_without_tls_has_the_token_alone() -> None:
    secret = read_secret(as_object({"token": "token"}))
    assert secret == JobSecret("token")
    assert not secret.has_tls
    assert secret.client_context() is None
    assert secret.data == {"token": "token", "read-token": read_token_of("token")}
    old = {"token": secret.data["token"]}
    assert read_secret(as_object(old)) == secret, "one of an earlier version"


@pytest.mark.parametrize(
    ("held", "complaint"),
    [
        ({}, "it has no token"),
        ({"data": None}, "it has no token"),
        ({"data": {"token": ""}}, "it has no token"),
        ({"data": {"token": "%%%"}}, "not text"),
        ({"data": {"token": 7}}, "not text"),
        (as_object({"token": "t", "tls.crt": "c"}), "needs all of"),
        (as_object({"token": "t", "ca.crt": "a", "tls.crt": "c", "tls.key": "k"}), "ca.crt"),
    ],
)
def test_what_cannot_be_used_is_named(held: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        read_secret(held)


def test_a_certificate_outlives_its_job_and_is_taken_by_a_clock_that_is_behind() -> None:
    now = datetime(2030, 1, 1, tzinfo=timezone.utc)
    issued = issue_certificate(("a",), now=now)
    for text in (issued.certificate, issued.authority):
        made = x509.load_pem_x509_certificate(text.encode())
        assert made.not_valid_before_utc < now - timedelta(hours=1)
        assert made.not_valid_after_utc > now + LIFETIME - timedelta(days=2)
