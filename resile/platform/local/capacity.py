"""How much cpu and memory there is to give to nodes, and how much a node asks for.

Cpu is an exact decimal number of cores, so that ten nodes of 0.1 cores fill one core and not a
little more. Only cpu and memory are modelled; other resources of a manifest mean nothing here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

import psutil

from resile.job.errors import QuantityError
from resile.job.quantity import Quantity, parse_memory, parse_quantity
from resile.platform.local.errors import CapacityError
from resile.platform.local.hierarchy import own_limits

__all__ = ["CPU", "MEMORY", "MODELLED", "Capacity", "cores_text", "memory_text"]

CPU, MEMORY = "cpu", "memory"
MODELLED = (MEMORY, CPU)
_FLAG = "--capacity"
_UNITS = (("Ti", 1024**4), ("Gi", 1024**3), ("Mi", 1024**2), ("Ki", 1024))


@dataclass(frozen=True)
class Capacity:
    """An amount of cpu and memory."""

    cpu: Decimal = Decimal(0)
    """Cores."""

    memory: int = 0
    """Bytes."""

    @classmethod
    def of_this_machine(cls) -> Capacity:
        """What this process may use: the machine's, or less where a cgroup says so."""
        cores, memory = own_limits()
        usable = Decimal(len(os.sched_getaffinity(0)))
        total = int(psutil.virtual_memory().total)
        return cls(
            cpu=usable if cores is None else min(usable, cores),
            memory=total if memory is None else min(total, memory),
        )

    @classmethod
    def parse(cls, text: str) -> Capacity:
        """Read ``cpu=4,memory=8Gi``; what is left out is this machine's."""
        given: dict[str, Quantity] = {}
        for item in text.split(","):
            name, sign, amount = (part.strip() for part in item.partition("="))
            if not sign or not amount:
                raise CapacityError(f"{_FLAG} {text!r}: write it as cpu=4,memory=8Gi")
            if name in given:
                raise CapacityError(f"{_FLAG} {text}: {name} is given twice")
            given[name] = _amount(name, amount)
        machine = cls.of_this_machine()
        return cls(
            cpu=_cores(given[CPU]) if CPU in given else machine.cpu,
            memory=given[MEMORY].bytes if MEMORY in given else machine.memory,
        )

    @classmethod
    def of(cls, amounts: Mapping[str, str]) -> Capacity:
        """The cpu and memory among a node's requests or limits; none is 0."""
        return cls(
            cpu=_cores(parse_quantity(amounts.get(CPU, 0))),
            memory=parse_quantity(amounts.get(MEMORY, 0)).bytes,
        )

    def __add__(self, other: Capacity) -> Capacity:
        """Both together."""
        return Capacity(self.cpu + other.cpu, self.memory + other.memory)

    def __sub__(self, other: Capacity) -> Capacity:
        """What is left without ``other``; below zero where it was more."""
        return Capacity(self.cpu - other.cpu, self.memory - other.memory)

    def holds(self, other: Capacity) -> bool:
        """Whether ``other`` fits in."""
        return self.cpu >= other.cpu and self.memory >= other.memory

    def __str__(self) -> str:
        """As ``--capacity`` takes it."""
        return f"{CPU}={cores_text(self.cpu)},{MEMORY}={memory_text(self.memory)}"


def cores_text(cores: Decimal) -> str:
    """A number of cores for a person: ``0.5``, ``10``."""
    return format(cores.normalize(), "f")


def memory_text(amount: int) -> str:
    """An amount of memory for a person, with one decimal and never more than it is: ``23.5Gi``."""
    for unit, scale in _UNITS:
        if amount >= scale:
            tenths = amount * 10 // scale
            whole, tenth = divmod(tenths, 10)
            return f"{whole}.{tenth}{unit}" if tenth else f"{whole}{unit}"
    return str(amount)


def _amount(name: str, amount: str) -> Quantity:
    if name not in (CPU, MEMORY):
        raise CapacityError(f"{_FLAG} {name}={amount}: only cpu and memory can be given")
    try:
        quantity = parse_memory(amount) if name == MEMORY else parse_quantity(amount)
    except QuantityError as error:
        raise CapacityError(f"{_FLAG} {name}={amount}: {error}") from None
    if quantity == Quantity.zero():
        raise CapacityError(f"{_FLAG} {name}={amount}: nothing could run; give more than 0")
    return quantity


def _cores(quantity: Quantity) -> Decimal:
    return Decimal(quantity.amount.numerator) / Decimal(quantity.amount.denominator)
