"""Frames and bytes: encoded messages decode to the same, everything else is a BadFrame."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resile.job.elasticity import Elasticity
from resile.job.limits import MAX_WORKERS
from resile.wire.codec import (
    MAX_ERROR_TEXT,
    MAX_FRAME,
    decode_from_agent,
    decode_from_master,
    encode_from_agent,
    encode_from_master,
    spoken_protocol,
)
from resile.wire.errors import BadFrame
from resile.wire.messages import (
    PROTOCOL,
    AgentFrame,
    Fence,
    FromAgent,
    FromMaster,
    Hello,
    JobDone,
    Outcome,
    Prepare,
    RankProgress,
    Refused,
    Renew,
    Wait,
    Welcome,
    WorkersNow,
)
from tests.unit.wire import samples


@given(seq=st.integers(0, 2**53), message=samples.messages)
def test_what_an_agent_says_comes_back_as_it_was(seq: int, message: FromAgent) -> None:
    data = encode_from_agent(seq, message)
    again = decode_from_agent(data)
    assert encode_from_agent(again.seq, again.body) == data


@pytest.mark.parametrize(
    "message",
    [
        Welcome(node=3, round=0, lease=5.0, elasticity=Elasticity()),
        Wait(reason="waiting for nodes"),
        Prepare(round=1, group_rank=0, host_store=True, reason="first round"),
        JobDone(outcome=Outcome.FAILED, reason="x"),
        Refused(reason="no", final=True),
    ],
)
def test_what_the_master_says_comes_back_as_it_was(message: FromMaster) -> None:
    assert decode_from_master(encode_from_master(7, message)).body == message


@given(samples.anything)
def test_any_bytes_are_a_frame_or_a_bad_frame(data: bytes) -> None:
    for decode in (decode_from_agent, decode_from_master):
        with suppress(BadFrame):
            decode(data)
    assert spoken_protocol(data) is None or isinstance(spoken_protocol(data), int)


@given(samples.anything)
def test_whatever_decodes_keeps_to_the_bounds(data: bytes) -> None:
    try:
        frame = decode_from_agent(data)
    except BadFrame:
        return
    assert isinstance(frame, AgentFrame)
    assert 0 <= frame.seq <= 2**53
    if isinstance(frame.body, Hello):
        assert 1 <= frame.body.info.nproc <= 4096
        assert "\n" not in frame.body.info.name


@pytest.mark.parametrize("depth", [100, 10_000, MAX_FRAME])
@pytest.mark.parametrize("opener", [b"\x91", b"\x81\xa1x", b"\x82\xa3seq\x01\xa4body"])
def test_deep_nesting_is_a_bad_frame(opener: bytes, depth: int) -> None:
    with pytest.raises(BadFrame):
        decode_from_agent(opener * depth)


@pytest.mark.parametrize("count", [2**16, 2**32 - 1])
def test_a_promise_of_many_elements_takes_no_memory(count: int) -> None:
    data = msgspec.msgpack.encode({"seq": 1, "body": {"type": "WorkersReached", "reached": []}})
    promise = data.replace(b"\xa7reached\x90", b"\xa7reached\xdd" + count.to_bytes(4, "big"))
    assert promise != data
    with pytest.raises(BadFrame):
        decode_from_agent(promise)


def test_a_complaint_quotes_little_of_what_was_sent() -> None:
    data = msgspec.msgpack.encode({"seq": 1, "body": {"type": "x" * 100_000}})
    with pytest.raises(BadFrame) as error:
        decode_from_agent(data)
    assert len(str(error.value)) < MAX_ERROR_TEXT + 100


def test_fields_that_a_later_version_adds_are_passed_over() -> None:
    body = {"type": "Renew", "fence": {"node": 1, "round": 2}, "mood": "good"}
    data = msgspec.msgpack.encode({"seq": 1, "body": body, "more": [1, 2]})
    assert decode_from_agent(data).body == Renew(fence=Fence(1, 2))


def test_a_hello_of_any_version_tells_its_version() -> None:
    later = msgspec.msgpack.encode({"seq": 1, "body": {"type": "Hello", "protocol": 9}})
    silent = msgspec.msgpack.encode({"seq": 1, "body": {"type": "Hello"}})
    assert spoken_protocol(later) == 9
    assert spoken_protocol(silent) == PROTOCOL
    assert spoken_protocol(encode_from_agent(1, Renew(fence=Fence(1, 1)))) is None


def rank_progress(rank: int, **about: Any) -> RankProgress:
    values: dict[str, Any] = {"step": 2**63 - 1, "age": 0.1, "step_time": 1 / 3, **about}
    return RankProgress(local_rank=rank, rank=2**40 + rank, **values)


def test_the_progress_of_every_worker_of_the_largest_node_fits_into_a_frame() -> None:
    renew = Renew(
        fence=Fence(2**53, 2**53),
        workers=WorkersNow(pids=tuple(range(2**22, 2**22 + MAX_WORKERS))),
        ranks=tuple(map(rank_progress, range(MAX_WORKERS))),
    )
    data = encode_from_agent(1, renew)
    assert len(data) < MAX_FRAME
    assert decode_from_agent(data).body == renew
    crowd = msgspec.structs.replace(renew, workers=None, ranks=(*renew.ranks, rank_progress(0)))
    with pytest.raises(BadFrame):
        decode_from_agent(encode_from_agent(1, crowd))


@pytest.mark.parametrize("step", [-1, 2**64 - 1])
@pytest.mark.parametrize("seconds", [float("inf"), float("nan"), -1.0])
def test_a_strange_step_or_time_of_a_worker_is_no_bad_frame(step: int, seconds: float) -> None:
    strange = rank_progress(0, step=step, age=seconds, step_time=seconds)
    data = encode_from_agent(1, Renew(fence=Fence(1, 1), ranks=(strange,)))
    body = decode_from_agent(data).body
    assert isinstance(body, Renew)
    assert body.ranks[0].step == step


def test_what_a_later_version_adds_to_a_workers_progress_is_passed_over() -> None:
    body = {"type": "Renew", "fence": {"node": 1, "round": 2}, "ranks": [[0, 4, 7, 0.5, None, 9]]}
    read = decode_from_agent(msgspec.msgpack.encode({"seq": 1, "body": body})).body
    assert isinstance(read, Renew)
    assert read.ranks == (RankProgress(local_rank=0, rank=4, step=7, age=0.5),)


def honest_frame(message: str, *, workers: int) -> bytes:
    failure = {"local_rank": 0, "rank": 0, "pid": 1, "exit_code": 1, "message": message}
    body = {
        "type": "WorkersFailed",
        "fence": {"node": 1, "round": 1},
        "failures": [failure] * workers,
    }
    return msgspec.msgpack.encode({"seq": 1, "body": body})


def test_the_last_words_of_a_whole_node_fit_into_a_frame() -> None:
    longest = "\N{GRINNING FACE}" * (32 * 1024 // 8)
    data = honest_frame(longest, workers=8)
    assert len(data) < MAX_FRAME
    assert decode_from_agent(data)
