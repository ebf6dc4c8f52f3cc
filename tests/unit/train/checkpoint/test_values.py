"""Values go into JSON and come back exactly."""

from __future__ import annotations

import enum
import math
import struct
from collections import OrderedDict, namedtuple
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from resile.checkpoint.errors import NotTrusted, PartDamaged
from resile.train.checkpoint.encoding import STATELESS, encode
from resile.train.checkpoint.errors import UnsupportedState
from resile.train.checkpoint.values import decode

Point = namedtuple("Point", "x y")


class Colour(enum.Enum):
    RED = 1


class Table:
    """Keeps tensors by name and gives them back."""

    def __init__(self) -> None:
        self.tensors: dict[str, Any] = {}

    def tensor(self, value: Any, path: Any) -> Any:
        if isinstance(value, str):
            return self.tensors[value]
        self.tensors[".".join(path)] = value
        return ".".join(path)

    def array(self, name: str, _path: Any) -> Any:
        return self.tensors[name].numpy()

    def object(self, _value: Any, _path: Any) -> Any:
        return STATELESS


def there_and_back(value: Any, *, trust: bool = False) -> Any:
    table = Table()
    encoded = encode(value, keeper=table)
    data = msgspec.json.decode(msgspec.json.encode(encoded))
    return decode(data, resolver=table, trust=trust)


def same(left: Any, right: Any) -> bool:
    """Equal in value and type all the way down; a nan equals a nan, -0.0 does not equal 0.0."""
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return (math.isnan(left) and math.isnan(right)) or bits(left) == bits(right)
    if isinstance(left, complex):
        return same(left.real, right.real) and same(left.imag, right.imag)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return same(list(left.items()), list(right.items()))
    return bool(left == right)


def bits(value: float) -> bytes:
    return struct.pack("d", value)


keys = st.one_of(
    st.text(),
    st.integers(),
    st.booleans(),
    st.none(),
    st.binary(),
    st.floats(allow_nan=False),
    st.tuples(st.integers(), st.text()),
)
plain = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=-(1 << 200), max_value=1 << 200),
    st.floats(),
    st.complex_numbers(),
    st.text(),
    st.text(st.characters(codec=None)),
    st.binary(),
    st.binary().map(bytearray),
    st.builds(range, st.integers(), st.integers()),
    st.sampled_from([torch.float32, torch.bfloat16, torch.Size([2, 3]), torch.device("cuda:1")]),
    st.frozensets(keys),
    st.sets(keys),
)
trees = st.recursive(
    plain,
    lambda inner: st.one_of(
        st.lists(inner),
        st.lists(inner).map(tuple),
        st.dictionaries(keys, inner),
        st.dictionaries(st.sampled_from(["$tensor", "$dict", "$", "a"]), inner),
        st.dictionaries(keys, inner).map(OrderedDict),
    ),
    max_leaves=20,
)


@given(trees)
def test_whatever_is_plain_comes_back_exactly(value: Any) -> None:
    assert same(there_and_back(value), value)


@given(
    st.sampled_from(["f8", "f4", "f2", "i8", "u8", "i1", "?", "c16", "M8[ns]", "m8[s]", "U3", "S2"])
)
def test_numpy_scalars_come_back_with_their_type(kind: str) -> None:
    value = np.zeros(1, kind)[0] if kind[0] in "US" else np.ones(1, kind)[0]
    back = there_and_back(value)
    assert type(back) is type(value)
    assert back.dtype == value.dtype
    assert back == value


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.arange(6)[::-2],
        np.array(3.0),
        np.arange(4, dtype=">i4"),
        np.array(["a", "bc"]),
        np.array(["2020-01-01"], dtype="datetime64[D]"),
        np.zeros((0, 3), dtype=np.uint16),
        np.array([1 + 2j]),
    ],
    ids=str,
)
def test_arrays_come_back_as_arrays(array: Any) -> None:
    back = there_and_back({"a": array})["a"]
    assert type(back) is np.ndarray
    assert back.shape == array.shape
    assert back.dtype == array.dtype or back.dtype.newbyteorder("=") == array.dtype.newbyteorder(
        "="
    )
    assert np.array_equal(back, array)


def test_tensors_are_named_by_their_path() -> None:
    table = Table()
    tensor = torch.ones(2)
    assert encode({"a": [1, {"b": tensor}]}, keeper=table) == {
        "a": [1, {"b": {"$tensor": "a.1.b"}}]
    }
    assert table.tensors["a.1.b"] is tensor


def test_what_torch_reads_safely_needs_no_trust() -> None:
    sparse = torch.eye(3).to_sparse()

    class NoTensors(Table):
        def tensor(self, _value: Any, _path: Any) -> Any:
            return None

    encoded = encode(sparse, keeper=NoTensors())
    assert torch.equal(decode(encoded, resolver=Table()).to_dense(), torch.eye(3))


@pytest.mark.parametrize("value", [Point(1, 2), Colour.RED])
def test_what_would_run_code_needs_trust(value: Any, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(NotTrusted, match=r"config\.it is a .*trust=True"):
        there_and_back({"config": {"it": value}})
    assert there_and_back({"config": {"it": value}}, trust=True) == {"config": {"it": value}}


def test_what_cannot_be_saved_at_all_is_named() -> None:
    with pytest.raises(UnsupportedState, match=r"hooks\.0 is a .*function.*state_dict"):
        encode({"hooks": [lambda: 1]}, keeper=Table())


def test_a_state_that_contains_itself_is_refused() -> None:
    loop: dict[str, Any] = {}
    loop["self"] = loop
    with pytest.raises(UnsupportedState, match="contains itself"):
        encode(loop, keeper=Table())


def test_a_tensor_as_a_key_is_refused() -> None:
    with pytest.raises(UnsupportedState, match="tensor as a key"):
        encode({torch.ones(1): 1}, keeper=Table())


@pytest.mark.parametrize(
    "data",
    [
        {"$unheard": 1},
        {"$int": "x"},
        {"$dtype": "nn"},
        {"$numpy": ["O", ""]},
        {"$bytes": 5},
        {"$tuple": 5},
        {"$dict": [1]},
        {"$npy": "AAAA"},
    ],
    ids=str,
)
def test_nonsense_is_called_damaged(data: Any) -> None:
    with pytest.raises(PartDamaged, match="a"):
        decode({"a": data}, resolver=Table())
