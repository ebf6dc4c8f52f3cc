"""Parse YAML or JSON text into plain data, with the line of every field.

PyYAML alone would accept a key written twice (the last one wins), expand aliases without bound, and
lose the lines; so the tree of nodes is walked here. Values are resolved by the rules of YAML 1.1
(``yes`` is a boolean), as in all Kubernetes manifests.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import yaml

from resile.decoding import DecodeError, decode_json
from resile.job.errors import Problem
from resile.job.limits import MAX_MANIFEST_BYTES

__all__ = ["FieldPath", "ParsedText", "dotted", "read_text"]

FieldPath: TypeAlias = tuple[str | int, ...]

_LONGEST_QUOTE = 60
_LONGEST_TEXT = 4 * MAX_MANIFEST_BYTES
"""Characters; room for comments and indentation."""

_MOST_NODES = 100_000
"""A manifest has hundreds of fields; aliases of aliases can stand for billions."""


@dataclass
class ParsedText:
    """Parsed data, the line of each field, and problems of the text itself."""

    data: Any = None
    lines: dict[str, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def dotted(path: FieldPath) -> str:
    """A path as a person writes it: ``spec.roles.worker.env[0].name``."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def read_text(text: str) -> ParsedText:
    """Parse one document. A syntax error gives ``data`` None and one problem with its line."""
    if len(text) > _LONGEST_TEXT:
        message = f"a manifest has at most {_LONGEST_TEXT} characters, this one {len(text)}"
        return ParsedText(problems=[Problem("", message)])
    if text.lstrip().startswith("{"):
        try:
            return ParsedText(data=decode_json(text, object))
        except DecodeError:
            pass  # YAML's flow style begins the same way, and its errors name the line
    return _TreeReader(text).read()


class _TreeReader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._source = ParsedText()
        self._left = _MOST_NODES
        self._open: set[int] = set()
        self._flat: set[int] = set()

    def read(self) -> ParsedText:
        try:
            self._loader = yaml.SafeLoader(self._text)
            root = self._loader.get_single_node()
            if root is not None:
                self._source.data = self._value(root, ())
        except yaml.YAMLError as error:
            self._source = ParsedText(problems=[_syntax_problem(error)])
        except _TooMuch as error:
            self._source = ParsedText(problems=[Problem("", str(error))])
        except RecursionError:
            self._source = ParsedText(problems=[Problem("", "nested too deeply")])
        return self._source

    def _value(self, node: yaml.Node, path: FieldPath) -> Any:
        self._left -= 1
        if self._left < 0:
            raise _TooMuch(f"more than {_MOST_NODES} values, with aliases expanded")
        if id(node) in self._open:
            raise _TooMuch(f"the alias at {dotted(path)} contains itself")
        self._source.lines.setdefault(dotted(path), node.start_mark.line + 1)
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, path)
            if isinstance(node, yaml.SequenceNode):
                return [self._value(item, (*path, n)) for n, item in enumerate(node.value)]
            return self._scalar(node, path)
        finally:
            self._open.discard(id(node))

    def _scalar(self, node: yaml.Node, path: FieldPath) -> Any:
        try:
            return self._loader.construct_object(node)
        except ValueError as error:  # such as a date in a 13th month
            shown = str(node.value)[:_LONGEST_QUOTE]
            self._report(node, path, f"cannot read {shown!a}: {error}")
            return None

    def _mapping(self, node: yaml.MappingNode, path: FieldPath) -> dict[Any, Any]:
        if id(node) not in self._flat:  # flattening adds merged keys to the node permanently
            self._flat.add(id(node))
            self._report_repeated_keys(node, path)
            self._loader.flatten_mapping(node)
        found: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = self._scalar(key_node, path)
            if not isinstance(key, str):
                self._report(key_node, path, f"keys must be text, found {_shown(key_node)}")
                continue
            found[key] = self._value(value_node, (*path, key))
        return found

    def _report_repeated_keys(self, node: yaml.MappingNode, path: FieldPath) -> None:
        first: dict[str, int] = {}
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode) or key_node.value == "<<":
                continue
            line = key_node.start_mark.line + 1
            if key_node.value in first:
                where = (*path, key_node.value)
                self._report(key_node, where, f"already given at line {first[key_node.value]}")
            first.setdefault(key_node.value, line)

    def _report(self, node: yaml.Node, path: FieldPath, message: str) -> None:
        line = node.start_mark.line + 1
        self._source.problems.append(Problem(dotted(path), message, line))


class _TooMuch(Exception):
    """The text expands to more than any manifest holds."""


def _shown(key: yaml.Node) -> str:
    return repr(key.value) if isinstance(key, yaml.ScalarNode) else "a list or mapping"


def _syntax_problem(error: yaml.YAMLError) -> Problem:
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        message = " ".join(part for part in (error.context, error.problem) if part)
        return Problem("", f"not valid YAML: {message}", mark.line + 1 if mark else None)
    return Problem("", f"not valid YAML: {error}")
