"""Enums, dataclasses and named tuples are restored without pickle, and only as classes that exist
already."""

from __future__ import annotations

import enum
import pickle
from abc import ABC
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from resile.checkpoint.errors import PartDamaged
from resile.checkpoint.part import lay_out
from resile.train.checkpoint.errors import StateMismatch, UnsupportedState
from resile.train.checkpoint.restore.apply_state import restore
from resile.train.checkpoint.save.capture import Portion
from resile.train.checkpoint.state.script_classes import ScriptClasses
from tests.unit.train.checkpoint.parts import MemoryPart, save, written
from tests.unit.train.checkpoint.training import build, equal, train

Point = namedtuple("Point", "x y")
T = TypeVar("T")


class Colour(enum.Enum):
    RED = 1
    CRIMSON = 1
    BLUE = ("not", "plain")


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Split(str, enum.Enum):
    TRAIN = "train"
    TEST = "test"


class Access(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()
    BOTH = READ | WRITE
    RUN = enum.auto()


class Bits(enum.IntFlag):
    ONE = 1
    FOUR = 4


class Metrics(NamedTuple):
    loss: Any
    accuracy: float = 0.0


class Better(Metrics):
    """A subclass of a named tuple, with a property."""

    @property
    def error(self) -> float:
        return 1 - self.accuracy


@dataclass
class Settings:
    rate: float = 0.1
    names: list[str] = field(default_factory=list)
    nested: Any = None

    def __post_init__(self) -> None:
        if self.rate < 0:
            raise AssertionError("was made by its constructor")


@dataclass(frozen=True)
class Frozen:
    level: Level
    split: Split = Split.TRAIN


@dataclass(frozen=True)
class Slim:
    __slots__ = ("left", "right")
    left: Any
    right: Any


@dataclass
class Box(ABC, Generic[T]):
    content: T
    made: int = field(init=False, repr=False, default=3)

    @cached_property
    def twice(self) -> Any:
        return [self.content, self.content]


@dataclass
class Journal:
    """A dataclass whose content is known only from its type annotations."""

    best: Metrics | None = None
    history: list[Frozen] = field(default_factory=list)
    colours: dict[str, Colour] = field(default_factory=dict)


SPECIMENS = [
    *Colour,
    *Level,
    *Split,
    *Access,
    Access.READ | Access.RUN,
    Access(0),
    Bits.ONE | Bits.FOUR,
    Point(1, (2, "x")),
    Metrics(0.5),
    Better(0.5, 0.75),
    Settings(0.2, ["a"], {"inner": Settings()}),
    Frozen(Level.HIGH),
    Slim(Colour.RED, [Point(1, 2)]),
    Box(Metrics(1, 2)),
]


def there_and_back(value: Any, into: dict[str, Any]) -> Any:
    """Restore like a new worker: the value in the checkpoint, the script's object in ``into``."""
    restore(into, save({"it": value, **rest(into)}, classes=ScriptClasses(into)))
    return into["it"]


def rest(state: dict[str, Any]) -> dict[str, Any]:
    return {key: one for key, one in state.items() if key != "it"}


@pytest.fixture
def no_pickle(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("pickled")

    for owner, name in [(torch, "load"), (torch, "save"), (pickle, "loads"), (pickle, "dumps")]:
        monkeypatch.setattr(owner, name, refuse)


@pytest.mark.usefixtures("no_pickle")
@pytest.mark.parametrize("value", SPECIMENS, ids=repr)
def test_a_value_comes_back_as_what_it_was(value: Any) -> None:
    back = there_and_back({"deep": [value]}, {"it": None, "known": SPECIMENS[:]})["deep"][0]
    assert type(back) is type(value)
    assert back == value
    if isinstance(value, enum.Enum):
        assert back is value


keys = st.sampled_from([*Level, *Split, Point(1, 2), Frozen(Level.LOW), "plain", 5])
trees = st.recursive(
    st.one_of(st.integers(), st.text(), st.sampled_from(SPECIMENS), keys),
    lambda inner: st.one_of(
        st.lists(inner),
        st.builds(Point, inner, inner),
        st.builds(Slim, inner, inner),
        st.builds(Settings, st.just(0.5), st.just([]), inner),
        st.dictionaries(keys, inner),
        st.frozensets(keys, max_size=1),  # the order of more is undefined
    ),
    max_leaves=12,
)


@given(trees)
def test_values_in_values_come_back(value: Any) -> None:
    back = there_and_back(value, {"it": None, "known": SPECIMENS[:]})
    assert back == value
    assert repr(back) == repr(value)


def test_what_the_state_names_only_as_types_is_known() -> None:
    full = Journal(Metrics(1.0), [Frozen(Level.LOW)], {"a": Colour.BLUE})
    assert there_and_back(full, {"it": Journal()}) == full


def test_tensors_in_them_are_filled_where_they_are() -> None:
    saved = Settings(nested=Slim(torch.ones(2), Metrics(torch.full((3,), 2.0))))
    live = Settings(nested=Slim(torch.zeros(2), Metrics(torch.zeros(3))))
    left, loss = live.nested.left, live.nested.right.loss
    back = there_and_back(saved, {"it": live})
    assert back.nested.left is left
    assert back.nested.right.loss is loss
    assert (left.tolist(), loss.tolist()) == ([1, 1], [2, 2, 2])


def test_a_dataclass_stays_the_object_that_the_script_has() -> None:
    live = Settings()
    assert there_and_back(Settings(0.7, ["x"]), {"it": live}) is live
    assert live == Settings(0.7, ["x"])


def test_no_constructor_runs() -> None:
    bad = Settings()
    bad.rate = -1
    assert there_and_back([bad], {"it": [Settings()]})[0].rate == -1


def test_what_is_cached_is_not_kept() -> None:
    box = Box([1])
    assert box.twice == [[1], [1]]
    assert "twice" not in vars(there_and_back([box], {"it": [Box([])]})[0])


@pytest.mark.parametrize("hold", [Settings, Slim, Point], ids=lambda hold: hold.__name__)
def test_objects_in_them_are_restored(hold: Callable[..., Any]) -> None:
    def held(seed: int) -> dict[str, Any]:
        state = build(seed)
        if hold is Settings:
            it = Settings(seed, nested={"model": state["model"], "optimizer": state["optimizer"]})
        else:
            it = hold(state["model"], {"optimizer": state["optimizer"], "seed": seed})
        return {**state, "it": it}

    one, other = held(0), held(1)
    train(one, 2)
    only = {"it": one["it"]}
    restore({"it": other["it"]}, save(only, classes=ScriptClasses(only)))
    assert equal(one["model"], other["model"])
    names = save(only, classes=ScriptClasses(only))[0].header.slices
    assert any("optimizer" in name and "embed.weight" in name for name in names)


def test_a_dictionary_of_models_may_have_an_enum_for_its_keys() -> None:
    def models() -> dict[str, Any]:
        return {"it": {split: nn.Linear(2, 2) for split in Split}}

    one, other = models(), models()
    restore(other, save(one, classes=ScriptClasses(one)))
    assert all(equal(one["it"][split], other["it"][split]) for split in Split)


# --- what does not fit --------------------------------------------------------------------------


def parts_with(value: Any) -> list[MemoryPart]:
    return save({"it": value}, classes=ScriptClasses({"it": value}))


@pytest.mark.parametrize("value", SPECIMENS[-7:], ids=repr)
def test_a_class_that_the_state_has_not_is_refused_when_it_is_saved(value: Any) -> None:
    said = r"it\.0 is a .*The state given to restore holds no value of that class.*put one into"
    with pytest.raises(UnsupportedState, match=said):
        save({"it": [value]}, classes=ScriptClasses({"it": []}))


@pytest.mark.parametrize("live", [None, [], Point(1, 2)], ids=repr)
def test_and_when_it_is_restored_with_nothing_changed(live: Any) -> None:
    state = {"it": live}
    parts = parts_with([Frozen(Level.LOW)])
    said = r"it\.0: saved as a .*:Frozen, but the state .* no value of that class; put one"
    with pytest.raises(StateMismatch, match=said):
        restore(state, parts)
    assert state == {"it": live}
    assert restore(state, parts, strict=False).left_alone[0].startswith("it.0: saved as a ")
    assert state == {"it": live}


def forged(data: Any) -> list[MemoryPart]:
    """Parts from an attacker who can write to the storage."""
    parts = save({"it": None})
    header = msgspec.structs.replace(parts[0].header, values={"it": data})
    return [written(Portion(header, {}, lay_out(header))), parts[1]]


STRANGERS = ["subprocess:Popen", "os:system", "builtins:dict", f"{__name__}:Better"]
CONTENTS = {"$record": [{}], "$named": [[], []], "$member": [["RED"]]}
OTHER_SORTS = [("$record", "Colour"), ("$named", "Settings"), ("$member", "Settings")]


@pytest.mark.parametrize(
    ("tag", "name"),
    [
        *((tag, name) for tag in CONTENTS for name in STRANGERS),
        *((tag, f"{__name__}:{name}") for tag, name in OTHER_SORTS),
    ],
)
def test_no_name_in_a_checkpoint_gets_a_class_that_the_state_has_not(tag: str, name: str) -> None:
    """Nor one that the state has as something else."""
    with pytest.raises(StateMismatch, match=f"it: saved as a {name}, but the state to restore"):
        restore({"it": Colour.RED, "known": Settings()}, forged({tag: [name, *CONTENTS[tag]]}))


@pytest.mark.parametrize(
    "data",
    [
        {"$record": [f"{__name__}:Settings"]},
        {"$record": [f"{__name__}:Settings", 5]},
        {"$record": [{}, {}]},
        {"$named": [f"{__name__}:Point", ["x", "y"], [1]]},
        {"$member": [f"{__name__}:Colour", []]},
        {"$member": [f"{__name__}:Colour", 7]},
        {"$member": 1},
    ],
    ids=str,
)
def test_nonsense_is_called_damaged(data: Any) -> None:
    with pytest.raises(PartDamaged, match="it cannot be read"):
        restore({"it": [Settings(), Point(1, 2), Colour.RED]}, forged(data))


def test_fields_beyond_those_of_the_class_are_never_set() -> None:
    name = f"{__name__}:Settings"
    live = Settings()
    state = {"it": live}
    parts = forged({"$record": [name, {"rate": 5.0, "__dict__": {}, "save": "x"}]})
    with pytest.raises(StateMismatch) as caught:
        restore(state, parts)
    assert set(caught.value.problems) == {
        "it.names: in the state, but not in the checkpoint",
        "it.nested: in the state, but not in the checkpoint",
        "it.__dict__: in the checkpoint, but not in the state",
        "it.save: in the checkpoint, but not in the state",
    }
    assert live == Settings()


def test_what_fits_of_a_changed_dataclass_is_restored_if_that_is_wanted() -> None:
    name = f"{__name__}:Settings"
    state = {"it": Settings(0.5, ["live"]), "more": [0]}
    parts = forged({"$record": [name, {"rate": 5.0, "gone": 1}]})
    assert len(restore(state, parts, strict=False).left_alone) == 4
    assert state["it"] == Settings(5.0, ["live"])
    state = {"it": [], "more": Settings()}
    restore(state, forged([{"$record": [name, {"rate": 5.0}]}]), strict=False)
    assert state["it"] == [Settings(5.0)]
    state = {"it": [], "more": Metrics(1)}
    left = restore(state, forged([{"$named": [f"{__name__}:Metrics", [], []]}]), strict=False)
    assert "it.0.loss: has neither a value nor a default" in left.left_alone
    assert state["it"] == []


def test_a_member_that_is_gone_is_named() -> None:
    parts = forged({"$member": [f"{__name__}:Colour", ["GREEN"]]})
    with pytest.raises(StateMismatch, match=r"it: .*:Colour no longer has the member GREEN"):
        restore({"it": Colour.RED}, parts)


def test_a_class_that_has_moved_is_known_by_the_rest_of_its_name() -> None:
    state = {"it": Colour.BLUE}
    restore(state, forged({"$member": ["__main__:Colour", ["CRIMSON"]]}))
    assert state["it"] is Colour.RED


# --- what is more than its fields ---------------------------------------------------------------


@dataclass
class Outputs(OrderedDict):  # type: ignore[type-arg]
    loss: float = 0.0


@dataclass
class Unset:
    later: int = field(init=False)


def extended() -> Any:
    settings = Settings()
    settings.cache = {}  # type: ignore[attr-defined]
    return settings


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (extended(), "attributes beside the fields: cache"),
        (Unset(), "fields without a value: later"),
    ],
)
def test_what_fields_do_not_tell_is_refused(value: Any, said: str) -> None:
    with pytest.raises(UnsupportedState, match=rf"it is a .* by its fields alone; {said}"):
        parts_with(value)


def test_a_dataclass_that_is_a_dictionary_as_well_is_not_taken_for_its_fields() -> None:
    with pytest.raises(UnsupportedState, match=r"it is a .*Outputs, which could only"):
        parts_with(Outputs(1.0))


def test_bits_that_are_no_flag_are_refused() -> None:
    with pytest.raises(UnsupportedState, match=r"it is a .*Bits, which could only"):
        parts_with(Bits(1 | 8))
