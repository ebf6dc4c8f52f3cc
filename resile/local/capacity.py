"""Amounts of cpu and memory: the capacity for nodes, and the requests of a node.

Cpu is an exact decimal number of cores, so that ten nodes of 0.1 cores fill one core and not a
little more. Only cpu and memory are modelled; other resources of a manifest are ignored here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

import psutil

from resile.job.errors import QuantityError
from resile.job.spec.quantity import Quantity, parse_memory, parse_quantity
from resile.local.errors import CapacityError
from resile.system.cgroups import own_limits

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
        """Return what this process may use: the machine's, or less if a cgroup limits it."""
        cores, memory = own_limits()
        usable = Decimal(len(os.sched_getaffinity(0)))
        total = int(psutil.virtual_memory().total)
        return cls(
            cpu=usable if cores is None else min(usable, cores),
            memory=total if memory is None else min(total, memory),
        )

    @classmethod
    def parse(cls, text: str) -> Capacity:
        """Parse ``cpu=4,memory=8Gi``; what is left out is this machine's."""
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
        """Return the cpu and memory among a node's requests or limits; 0 if missing."""
        return cls(
            cpu=_cores(parse_quantity(amounts.get(CPU, 0))),
            memory=parse_quantity(amounts.get(MEMORY, 0)).bytes,
        )

    def __add__(self, other: Capacity) -> Capacity:
        """Return the sum."""
        return Capacity(self.cpu + other.cpu, self.memory + other.memory)

    def __sub__(self, other: Capacity) -> Capacity:
        """Return the difference, which may be negative."""
        return Capacity(self.cpu - other.cpu, self.memory - other.memory)

    def holds(self, other: Capacity) -> bool:
        """Return whether ``other`` fits."""
        return self.cpu >= other.cpu and self.memory >= other.memory

    def __str__(self) -> str:
        """Return the text that ``--capacity`` accepts."""
        return f"{CPU}={cores_text(self.cpu)},{MEMORY}={memory_text(self.memory)}"


def cores_text(cores: Decimal) -> str:
    """Format a number of cores: ``0.5``, ``10``."""
    return format(cores.normalize(), "f")


def memory_text(amount: int) -> str:
    """Format an amount of memory with one decimal, rounded down: ``23.5Gi``."""
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
        raise CapacityError(f"{_FLAG} {name}={amount}: must be more than 0, or nothing could run")
    return quantity


def _cores(quantity: Quantity) -> Decimal:
    return Decimal(quantity.amount.numerator) / Decimal(quantity.amount.denominator)
