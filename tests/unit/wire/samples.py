"""Hypothesis strategies for everything a peer may send, valid or not."""

from __future__ import annotations

import msgspec
from hypothesis import strategies as st

from resile.job.elasticity import Elasticity, GroupSuccess
from resile.wire.codec import encode_from_agent
from resile.wire.messages import (
    Fence,
    FromAgent,
    Hello,
    Leave,
    LocalState,
    NodeInfo,
    Progress,
    RankProgress,
    Ready,
    Renew,
    Start,
    StoreAddress,
    WorkerFailure,
    WorkersFailed,
    WorkersReached,
    WorkersSucceeded,
)

small = st.integers(0, 6)
numbers = st.one_of(small, st.integers(0, 2**53))
words = st.text(
    st.characters(min_codepoint=32, max_codepoint=0x2FF, exclude_categories=["C"]),
    min_size=1,
    max_size=20,
)
fences = st.builds(Fence, numbers, numbers)
addresses = st.builds(StoreAddress, st.just("127.0.0.1"), st.integers(1, 65535))
failures = st.builds(
    WorkerFailure,
    local_rank=numbers,
    rank=numbers,
    pid=numbers,
    exit_code=st.integers(-(2**31), 2**32),
    age=st.floats(0, 1e9),
    message=st.text(max_size=50),
)
several_failures = st.lists(failures, max_size=3).map(tuple)
progress = st.builds(
    Progress,
    step=st.none() | st.integers(-(2**63), 2**64 - 1),
    loss=st.none() | st.floats(),
)
ranks_progress = st.lists(
    st.builds(
        RankProgress,
        local_rank=numbers,
        rank=numbers,
        step=st.integers(-(2**63), 2**64 - 1),
        age=st.floats(),
        step_time=st.none() | st.floats(),
    ),
    max_size=4,
).map(tuple)
ranks = st.lists(numbers, max_size=4).map(tuple)
infos = st.builds(
    NodeInfo,
    name=st.sampled_from(["a", "b"]) | words,
    host=words,
    address=st.just("127.0.0.1"),
    nproc=st.integers(1, 4096),
    role=st.just("stranger"),  # with another's role and rank it would correctly replace that node
    rank=st.none() | numbers,
    generation=st.none() | numbers,
    pid=numbers,
)
elasticities = st.builds(
    Elasticity,
    min_nodes=st.integers(1, 3),
    max_nodes=st.integers(3, 100),
    max_restarts=small,
    independent=st.booleans(),
    success=st.sampled_from(GroupSuccess),
)


starts = st.builds(
    Start,
    round=numbers,
    group_rank=numbers,
    group_world_size=numbers,
    first_rank=numbers,
    world_size=numbers,
    store=addresses,
    restart_count=numbers,
    max_restarts=numbers,
)


def hellos(job: str) -> st.SearchStrategy[Hello]:
    """Hello messages, most of them to the right job."""
    return st.builds(
        Hello,
        protocol=st.sampled_from([1, 1, 1, 1, 0, 2]),
        job=st.sampled_from([job, job, job, "another"]),
        info=infos,
        elasticity=elasticities,
        held=st.none() | fences,
        state=st.sampled_from(LocalState),
        store=st.none() | addresses,
        failures=several_failures,
        start=st.none() | starts,
        seen=numbers,
        group=st.sampled_from(["", "", "evaluate", "worker/0"]) | words,
    )


def later_messages(
    fences: st.SearchStrategy[Fence] = fences,
) -> st.SearchStrategy[FromAgent]:
    """All messages that may follow a Hello, with these fences."""
    return st.one_of(
        st.builds(Renew, fence=fences, progress=st.none() | progress, ranks=ranks_progress),
        st.builds(Ready, fence=fences, store=st.none() | addresses),
        st.builds(WorkersFailed, fence=fences, failures=several_failures),
        st.builds(WorkersSucceeded, fence=fences),
        st.builds(WorkersReached, fence=fences, reached=ranks, missing=ranks),
        st.builds(Leave, fence=fences, reason=words),
    )


messages = st.one_of(hellos("j"), later_messages())
frames = st.builds(encode_from_agent, st.integers(0, 2**53), messages)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A real frame with a few bytes changed, removed or inserted."""
    data = bytearray(draw(frames))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(data)))
        cut = draw(st.integers(0, 3))
        data[place : place + cut] = draw(st.binary(max_size=3))
    return bytes(data)


plain_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["seq", "body", "type", "fence", "node"]), inner)
    ),
    max_leaves=12,
)
other_msgpack = plain_values.map(msgspec.msgpack.encode)

anything = st.one_of(st.binary(max_size=400), damaged(), other_msgpack, frames)
"""Bytes of every kind."""
