"""Mutual authentication: both sides prove that they know the job's token without sending it.

    called -> caller    a nonce
    caller -> called    another nonce, and HMAC(token, "caller" + both)
    called -> caller    HMAC(token, "called" + both)

An eavesdropper learns nothing that can be replayed. The parts themselves are sent unencrypted, as
the workers' own collectives are: keep a job's nodes on a private network.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import socket

from resile.checkpoint.keeping.errors import PeerTrouble
from resile.checkpoint.keeping.peers import frames
from resile.checkpoint.keeping.peers.frames import AnswerDecoder, AskDecoder, Challenge, No, Proof

__all__ = ["admit", "introduce"]

NONCE = 32


def admit(connection: socket.socket, token: str, *, deadline: float | None = None) -> bool:
    """Authenticate a caller; returns whether it belongs to the job, and sends a refusal if not.

    ``deadline``: of the monotonic clock, for the whole exchange; raises TimeoutError.
    """
    mine = secrets.token_bytes(NONCE)
    frames.send(connection, Challenge(mine))
    proof = frames.receive(connection, AskDecoder, deadline=deadline)
    if not isinstance(proof, Proof) or len(proof.nonce) != NONCE:
        raise PeerTrouble("the caller did not authenticate")
    if not hmac.compare_digest(proof.code, _code(token, b"caller", mine + proof.nonce)):
        frames.send(connection, No(reason="wrong job token"))
        return False
    frames.send(connection, Proof(b"", _code(token, b"called", mine + proof.nonce)))
    return True


def introduce(connection: socket.socket, token: str, *, deadline: float | None = None) -> None:
    """Authenticate as the caller; raises :class:`PeerTrouble` unless both have the same token.

    ``deadline``: of the monotonic clock, for the whole exchange; raises TimeoutError.
    """
    challenge = frames.receive(connection, AnswerDecoder, deadline=deadline)
    if not isinstance(challenge, Challenge) or len(challenge.nonce) != NONCE:
        raise PeerTrouble("it is not a snapshot server")
    mine = secrets.token_bytes(NONCE)
    both = challenge.nonce + mine
    frames.send(connection, Proof(mine, _code(token, b"caller", both)))
    answer = frames.receive(connection, AnswerDecoder, deadline=deadline)
    if isinstance(answer, No):
        raise PeerTrouble(answer.reason)
    if not isinstance(answer, Proof) or not hmac.compare_digest(
        answer.code, _code(token, b"called", both)
    ):
        raise PeerTrouble("it does not know the job's token")


def _code(token: str, role: bytes, nonces: bytes) -> bytes:
    return hmac.digest(token.encode(), b"resile snapshots " + role + nonces, hashlib.sha256)
