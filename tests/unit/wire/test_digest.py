"""Both sides prove that they know the token; no one else can, and no proof works twice."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from resile.wire.auth import Scope, checked, read_token_of
from resile.wire.digest import NONCE_LIFETIME, Credentials, Verifier

TOKEN = "a-token-that-only-the-tests-know"
GET = {"method": "GET", "uri": "/v1/job"}


class Clock:
    """A time that the test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def request(credentials: Credentials, verifier: Verifier) -> str:
    """A client's header after a challenge."""
    assert credentials.challenged(verifier.challenge())
    return credentials.authorization("GET", "/v1/job")["Authorization"]


def test_both_sides_prove_themselves_and_the_token_is_never_sent() -> None:
    master, client = Verifier(TOKEN), Credentials(TOKEN)
    header = request(client, master)
    assert master.verify(header, **GET)
    assert master.spend(header)
    proof = master.proof(header)
    assert client.proven_by(proof)
    assert TOKEN not in header + proof


def test_the_answer_brings_the_next_nonce() -> None:
    master, client = Verifier(TOKEN), Credentials(TOKEN)
    assert client.proven_by(master.proof(request(client, master)))
    following = client.authorization("GET", "/v1/job")["Authorization"]
    assert master.verify(following, **GET)
    assert master.spend(following)
    assert client.authorization("GET", "/v1/job") == {}, "a nonce is used once"


def test_who_does_not_know_the_token_proves_nothing() -> None:
    master, stranger = Verifier(TOKEN), Verifier("another-token-of-another-job")
    client = Credentials(TOKEN)
    header = request(client, stranger)
    assert not stranger.verify(header, **GET)
    assert not client.proven_by(stranger.proof(header))
    assert not master.verify(request(Credentials("another-token-of-another-job"), master), **GET)


def test_a_client_believes_no_proof_that_it_did_not_ask_for() -> None:
    master, client = Verifier(TOKEN), Credentials(TOKEN)
    proof = master.proof(request(Credentials(TOKEN), master))
    assert not client.proven_by(proof)
    request(client, master)
    assert not client.proven_by(proof)
    assert not client.proven_by(None)
    assert not client.proven_by("qop=auth")


def test_a_header_that_was_overheard_is_of_no_use() -> None:
    master, client = Verifier(TOKEN), Credentials(TOKEN)
    header = request(client, master)
    assert master.spend(header)
    assert not master.spend(header), "a nonce is accepted once"
    assert not master.verify(header, method="DELETE", uri="/v1/job")
    assert not master.verify(header, method="GET", uri="/v1/job?x")


def test_a_nonce_expires_and_is_then_forgotten() -> None:
    clock = Clock()
    master = Verifier(TOKEN, clock=clock)
    used, late = request(Credentials(TOKEN), master), request(Credentials(TOKEN), master)
    assert master.spend(used)
    clock.now = NONCE_LIFETIME + 1
    assert not master.spend(late)
    assert not master.spend(used)


def test_a_nonce_of_another_master_is_stale() -> None:
    before, after = Verifier(TOKEN), Verifier(TOKEN)
    header = request(Credentials(TOKEN), before)
    assert after.verify(header, **GET)
    assert not after.spend(header)
    assert Credentials.is_stale(after.challenge(stale=True))
    assert not Credentials.is_stale(after.challenge())
    assert not Credentials.is_stale(None)


def test_other_schemes_are_no_challenge_of_ours() -> None:
    client = Credentials(TOKEN)
    assert not client.challenged(None)
    assert not client.challenged('Basic realm="resile"')
    assert not client.challenged('Digest realm="printer", nonce="x", algorithm=SHA-256')
    assert not client.challenged('Digest realm="resile", nonce="x", algorithm=MD5')
    assert not client.challenged('Digest realm="resile", algorithm=SHA-256')


def test_the_read_token_proves_both_sides_and_says_what_it_is() -> None:
    read = read_token_of(TOKEN)
    master, client = Verifier(TOKEN), Credentials(read)
    header = request(client, master)
    assert master.verify(header, **GET) is Scope.READ
    assert master.verify(request(Credentials(TOKEN), master), **GET) is Scope.WRITE
    assert not client.proven_by(master.proof(header, Scope.WRITE)), "with another secret"
    header = request(client, master)
    assert client.proven_by(master.proof(header, Scope.READ))


def test_a_read_token_leads_to_no_other() -> None:
    """It is the same on every machine and in every version, and never a job's own."""
    assert read_token_of("a-token-of-a-job") == "vjelqlKoARU-nhk7qfy1JC20qBPJNT_x9tHejM2Z9EY"
    read = read_token_of(TOKEN)
    assert read not in (TOKEN, read_token_of(read))
    assert checked(read, source="it") == read
    assert Verifier(read).verify(request(Credentials(TOKEN), Verifier(read)), **GET) is None


@example("=", "")
@example("a=", "Digest ")
@given(st.text(), st.sampled_from(["", "Digest ", 'Digest username="resile", uri="/v1/job", ']))
def test_headers_of_any_text_are_refused_without_a_fault(text: str, before: str) -> None:
    master = Verifier(TOKEN)
    assert not master.verify(before + text, **GET)
    assert not master.spend(before + text)
    assert not Credentials(TOKEN).proven_by(text)
