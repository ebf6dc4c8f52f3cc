"""A public class is found by its name, so no two have the same."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import resile


def test_no_two_public_classes_have_one_name() -> None:
    places = defaultdict(list)
    root = Path(resile.__file__).parent
    for path in root.rglob("*.py"):
        for statement in ast.parse(path.read_text()).body:
            if isinstance(statement, ast.ClassDef) and not statement.name.startswith("_"):
                places[statement.name].append(str(path.relative_to(root)))
    assert places
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
