"""Both sides show that they know the job's token, and neither says it.

    called -> caller    a number never used before
    caller -> called    another one, and HMAC(token, "caller" + both)
    called -> caller    HMAC(token, "called" + both)

Who listens in learns nothing that helps later. The part's bytes themselves travel in clear, as the
workers' own collectives do: keep a job's nodes on a network that is theirs.
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
    """As the one who was called: whether the caller belongs to the job. It is told if not.

    ``deadline``: of the monotonic clock, for all of it; raises TimeoutError.
    """
    mine = secrets.token_bytes(NONCE)
    frames.send(connection, Challenge(mine))
    proof = frames.receive(connection, AskDecoder, deadline=deadline)
    if not isinstance(proof, Proof) or len(proof.nonce) != NONCE:
        raise PeerTrouble("the caller did not prove that it belongs to the job")
    if not hmac.compare_digest(proof.code, _code(token, b"caller", mine + proof.nonce)):
        frames.send(connection, No(reason="the job's token is another one"))
        return False
    frames.send(connection, Proof(b"", _code(token, b"called", mine + proof.nonce)))
    return True


def introduce(connection: socket.socket, token: str, *, deadline: float | None = None) -> None:
    """As the caller; raises :class:`PeerTrouble` unless both know the same token.

    ``deadline``: of the monotonic clock, for all of it; raises TimeoutError.
    """
    challenge = frames.receive(connection, AnswerDecoder, deadline=deadline)
    if not isinstance(challenge, Challenge) or len(challenge.nonce) != NONCE:
        raise PeerTrouble("it is no keeper of snapshots")
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
