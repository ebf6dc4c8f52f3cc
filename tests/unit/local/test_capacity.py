"""Amounts of cpu and memory: reading, adding, writing."""

from __future__ import annotations

from decimal import Decimal

import pytest

from resile.local.capacity import Capacity, memory_text
from resile.local.errors import CapacityError


def test_cpu_and_memory_are_read_in_any_order() -> None:
    expected = Capacity(Decimal("1.5"), 8 * 1024**3)
    assert Capacity.parse("cpu=1500m,memory=8Gi") == expected
    assert Capacity.parse(" memory = 8Gi , cpu = 1.5 ") == expected


def test_what_is_left_out_is_this_machines() -> None:
    machine = Capacity.of_this_machine()
    assert Capacity.parse("cpu=100") == Capacity(Decimal(100), machine.memory)
    assert Capacity.parse("memory=1Mi") == Capacity(machine.cpu, 1024**2)
    assert machine.cpu > 0
    assert machine.memory > 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "write it as cpu=4,memory=8Gi"),
        ("4", "write it as cpu=4,memory=8Gi"),
        ("cpu=", "write it as cpu=4,memory=8Gi"),
        ("cpu=4,", "write it as cpu=4,memory=8Gi"),
        ("gpu=1", "only cpu and memory can be given"),
        ("cpu=1,cpu=2", "cpu is given twice"),
        ("cpu=many", "'many' is not an amount"),
        ("cpu=-1", "negative"),
        ("memory=8GB", "did you mean 8G?"),
        ("memory=100m", "did you mean 100Mi?"),
        ("cpu=0", "must be more than 0"),
    ],
)
def test_a_mistake_names_the_flag_and_says_what_would_be_right(text: str, said: str) -> None:
    with pytest.raises(CapacityError) as caught:
        Capacity.parse(text)
    assert str(caught.value).startswith("--capacity ")
    assert said in str(caught.value)


def test_ten_tenths_of_a_core_are_exactly_one() -> None:
    tenth = Capacity.of({"cpu": "100m"})
    assert sum([tenth] * 10, start=Capacity()) == Capacity.of({"cpu": "1"})


def test_what_is_not_asked_for_is_nothing() -> None:
    assert Capacity.of({"nvidia.com/gpu": "1"}) == Capacity()


def test_it_holds_what_is_no_more_in_either() -> None:
    room = Capacity(Decimal(2), 10)
    assert room.holds(Capacity(Decimal(2), 10))
    assert not room.holds(Capacity(Decimal("2.1"), 1))
    assert not room.holds(Capacity(Decimal(1), 11))


def test_it_is_written_as_the_flag_takes_it() -> None:
    capacity = Capacity.parse("cpu=2.50,memory=1536Mi")
    assert str(capacity) == "cpu=2.5,memory=1.5Gi"
    assert Capacity.parse(str(capacity)) == capacity


def test_memory_is_never_shown_as_more_than_it_is() -> None:
    assert memory_text(1023) == "1023"
    assert memory_text(1024**2) == "1Mi"
    assert memory_text(1024**3 - 1) == "1023.9Mi"
