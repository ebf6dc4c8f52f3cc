"""Values are converted to JSON and back exactly."""

from __future__ import annotations

import enum
import math
import struct
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePosixPath, PureWindowsPath
from types import SimpleNamespace
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from resile.checkpoint.errors import NotTrusted, PartDamaged
from resile.train.checkpoint.errors import UnsupportedState
from resile.train.checkpoint.state.encoding import STATELESS, encode
from resile.train.checkpoint.state.script_classes import ScriptClasses
from resile.train.checkpoint.state.values import decode

Point = namedtuple("Point", "x y")


class Colour(enum.Enum):
    RED = 1


class Table:
    """Keeps tensors by name and returns them."""

    trust = False
    classes = ScriptClasses()

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
    encoded = encode(value, collector=table)
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
    assert encode({"a": [1, {"b": tensor}]}, collector=table) == {
        "a": [1, {"b": {"$tensor": "a.1.b"}}]
    }
    assert table.tensors["a.1.b"] is tensor


def test_what_torch_reads_safely_needs_no_trust() -> None:
    sparse = torch.eye(3).to_sparse()

    class NoTensors(Table):
        def tensor(self, _value: Any, _path: Any) -> Any:
            return None

    encoded = encode(sparse, collector=NoTensors())
    assert torch.equal(decode(encoded, resolver=Table()).to_dense(), torch.eye(3))


class Pair(NamedTuple):
    """A tuple with names."""

    left: int
    right: int


@dataclass
class Settings:
    """A class of the script."""

    rate: float = 0.1


@pytest.mark.parametrize(
    ("value", "instead"),
    [
        (Point(1, 2), "Save"),
        (Colour.RED, "Save its name or its value"),
        (Pair(1, 2), r"Save tuple\(...\) or _asdict\(\)"),
        (Settings(), r"Save dataclasses.asdict\(...\)"),
        (defaultdict(Settings), r"Save dict\(...\)"),
    ],
)
def test_what_would_run_code_is_refused_when_it_is_saved(value: Any, instead: str) -> None:
    with pytest.raises(UnsupportedState, match=rf"config\.it is a .*\. {instead}.*trust=True"):
        encode({"config": {"it": value}}, collector=Table())
    trusting = Table()
    trusting.trust = True
    encoded = encode({"config": {"it": value}}, collector=trusting)
    with pytest.raises(NotTrusted, match=r"config\.it is a .*trust=True"):
        decode(encoded, resolver=trusting)
    assert decode(encoded, resolver=trusting, trust=True) == {"config": {"it": value}}


@pytest.mark.parametrize(
    "value",
    [
        Path("/data/x"),
        Path("relative"),
        PurePosixPath("a/b"),
        PureWindowsPath("c:/x"),
        datetime(2026, 3, 1, 12, 30, 5, 7),
        datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")),
        datetime(2026, 3, 1, tzinfo=timezone.utc),
        datetime(2026, 3, 1, tzinfo=timezone(timedelta(hours=2, seconds=3), "here")),
        date(1, 1, 1),
        time(23, 59, 59, 999_999),
        timedelta(days=-3, microseconds=5),
        timezone.utc,
        Decimal("1.10"),
        Decimal("NaN"),
        Fraction(10**30, 3),
        UUID(int=2**127 + 1),
        deque([1, (2, "x")], maxlen=3),
        deque(),
        defaultdict(list, {"a": [1], 2: []}),
        defaultdict(None, {"a": 1}),
        Counter("abracadabra"),
        SimpleNamespace(a=1, b=[2]),
        {Path("a"): date(2026, 1, 1), (1, 2): None},
    ],
    ids=repr,
)
def test_plain_values_of_the_standard_library_need_no_pickle(value: Any) -> None:
    back = there_and_back({"it": value})["it"]
    assert type(back) is type(value)
    assert repr(back) == repr(value)
    if isinstance(value, datetime):
        assert (back.fold, back.utcoffset()) == (value.fold, value.utcoffset())
    if isinstance(value, deque):
        assert back.maxlen == value.maxlen
    if isinstance(value, defaultdict):
        assert back.default_factory is value.default_factory


def test_tensors_in_them_are_kept_as_tensors() -> None:
    table = Table()
    encoded = encode({"history": deque([torch.ones(2)])}, collector=table)
    assert encoded == {"history": {"$deque": [[{"$tensor": "history.0"}], None]}}


@pytest.mark.parametrize(
    "data",
    [
        {"$datetime": [2026, 13, 1, 0, 0, 0, 0, 0, None]},
        {"$path": ["nowhere", "x"]},
        {"$defaultdict": ["eval", []]},
        {"$zone": "../../etc/passwd"},
        {"$decimal": "x"},
        {"$deque": 7},
    ],
    ids=str,
)
def test_nonsense_in_their_place_is_damage(data: Any) -> None:
    with pytest.raises(PartDamaged, match="it cannot be read"):
        decode({"it": data}, resolver=Table())


def test_a_tree_that_is_nested_too_deeply_is_damage() -> None:
    tree: Any = 1
    for _ in range(5_000):
        tree = {"$tuple": [tree]}
    with pytest.raises(PartDamaged, match="nested too deeply"):
        decode({"it": tree}, resolver=Table())


def test_what_cannot_be_saved_at_all_is_named() -> None:
    with pytest.raises(UnsupportedState, match=r"hooks\.0 is a .*function.*state_dict"):
        encode({"hooks": [lambda: 1]}, collector=Table())


def test_a_state_that_contains_itself_is_refused() -> None:
    loop: dict[str, Any] = {}
    loop["self"] = loop
    with pytest.raises(UnsupportedState, match="contains itself"):
        encode(loop, collector=Table())


def test_a_tensor_as_a_key_is_refused() -> None:
    with pytest.raises(UnsupportedState, match="tensor as a key"):
        encode({torch.ones(1): 1}, collector=Table())


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
