"""Finds the environment variables that a program sets, from its syntax tree."""

import ast
from collections.abc import Iterator

from .settings import ANY

_BY_NAME = frozenset({"setdefault", "pop", "putenv", "unsetenv", "__setitem__", "__delitem__"})
_ANYTHING = frozenset({"load_dotenv", "clear", "popitem"})


def environ_writes(node: ast.AST) -> Iterator[str]:
    """Yield the variables that a statement or expression sets or removes; `ANY` if unknown."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, (ast.Store, ast.Del)):
        if _is_environ(node.value):
            yield _constant(node.slice)
    elif isinstance(node, ast.Call):
        yield from _written_by_call(node)
    elif isinstance(node, ast.AugAssign) and _is_environ(node.target):
        yield from _keys(node.value)
    elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and _is_environ(node.value):
        # Writes through another name cannot be seen.
        yield ANY


def _written_by_call(call: ast.Call) -> Iterator[str]:
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    of_environ = isinstance(function, ast.Attribute) and _is_environ(function.value)
    if name == "load_dotenv" or (of_environ and name in _ANYTHING):
        yield ANY
    elif name in ("putenv", "unsetenv") or (of_environ and name in _BY_NAME):
        yield _constant(call.args[0]) if call.args else ANY
    elif of_environ and name == "update":
        yield from (keyword.arg or ANY for keyword in call.keywords)
        for argument in call.args:
            yield from _keys(argument)


def _is_environ(node: ast.expr | None) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name in ("environ", "environb")


def _constant(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ANY


def _keys(node: ast.expr) -> Iterator[str]:
    if not isinstance(node, ast.Dict):
        yield ANY
        return
    for key in node.keys:
        yield ANY if key is None else _constant(key)
