"""Preloaded modules whose inputs have changed are imported again, where possible."""

import os
import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType

import pytest

from resile.agent.nursery.inside.deferred import DeferredModules
from resile.agent.nursery.inside.observation import Footprint

NAME = "resile_test_preloaded"
DEPENDENT = "resile_test_dependent"

Make = Callable[..., tuple[DeferredModules, ModuleType, list[tuple[str, str]]]]


@pytest.fixture
def deferred(monkeypatch: pytest.MonkeyPatch) -> Make:
    """Defer a module that has read a variable, and another one that imports it."""

    def make(*, is_native: bool) -> tuple[DeferredModules, ModuleType, list[tuple[str, str]]]:
        footprints = {
            NAME: Footprint(is_native=is_native),
            DEPENDENT: Footprint(is_native=False),
        }
        footprints[NAME].reads["SET_BY_SCRIPT"] = None
        footprints[NAME].writes["SET_BY_LIBRARY"] = "yes"
        footprints[DEPENDENT].needs[NAME] = None
        baseline = set(sys.modules)
        for name in footprints:
            monkeypatch.setitem(sys.modules, name, ModuleType(name))
        monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
        monkeypatch.setenv("SET_BY_LIBRARY", "no")
        module = sys.modules[NAME]
        told: list[tuple[str, str]] = []
        deferred = DeferredModules(footprints)
        deferred.prepare(baseline, [DEPENDENT, NAME])
        deferred.tell(lambda package, reason: told.append((package, reason)))
        deferred.hold(first_path=None)
        return deferred, module, told

    return make


def test_a_module_comes_with_what_it_needs_and_what_it_did(
    deferred: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, module, told = deferred(is_native=True)
    assert NAME not in sys.modules
    assert kept.has(NAME)
    import_module(DEPENDENT)
    assert sys.modules[NAME] is module
    assert os.environ["SET_BY_LIBRARY"] == "yes"
    assert not kept.has(NAME)
    assert told == []
    monkeypatch.delitem(sys.modules, NAME)
    with pytest.raises(ModuleNotFoundError):
        import_module(NAME)


def test_one_that_read_another_value_is_imported_anew(
    deferred: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, _, told = deferred(is_native=False)
    monkeypatch.setenv("SET_BY_SCRIPT", "1")
    with pytest.raises(ModuleNotFoundError):
        import_module(NAME)
    assert not kept.has(DEPENDENT), "it holds on to the other"
    assert told == []


def test_a_compiled_one_is_given_out_and_the_agent_is_told(
    deferred: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, module, told = deferred(is_native=True)
    monkeypatch.setenv("SET_BY_SCRIPT", "1")
    assert import_module(NAME) is module
    assert told == [(NAME, "depends on $SET_BY_SCRIPT, which the script sets before")]
