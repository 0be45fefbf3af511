"""What Python may ask of an object by way of an operator, a built-in function or NumPy, and the refusal of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

_BINARY = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "floordiv": "//",
    "mod": "%",
    "divmod": "divmod()",
    "pow": "**",
    "matmul": "@",
    "and": "&",
    "or": "|",
    "xor": "^",
    "lshift": "<<",
    "rshift": ">>",
}
_COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_UNARY = {"neg": "-", "pos": "+", "invert": "~", "bool": "truth value"}
_FUNCTIONS = ("abs", "round", "complex", "index", "int", "float", "iter", "len", "reversed", "call")
_MATH = ("trunc", "floor", "ceil")
_ITEMS = {"getitem": "[...]", "setitem": "[...] = value", "delitem": "del", "contains": "in"}
_NUMPY = {"array": "NumPy array", "array_ufunc": "NumPy function"}
#: The name of each special method, without its underscores, and how people write it.
SPELLED = {
    **_BINARY,
    **{f"r{name}": spelled for name, spelled in _BINARY.items()},
    **_COMPARISONS,
    **_UNARY,
    **{name: f"{name}()" for name in _FUNCTIONS},
    **{name: f"math.{name}()" for name in _MATH},
    **_ITEMS,
    **_NUMPY,
}


def refuse_operators(kind: type, refusal: Callable[[Any, str], NoReturn], inherited: tuple[str, ...] = ()) -> None:
    """Gives ``kind`` a refusal for every special method of :data:`SPELLED` that it does not define itself.

    Args:
        refusal: called with the object and the method's name; raises.
        inherited: methods that stay as they are.
    """
    for name in SPELLED:
        if f"__{name}__" not in vars(kind) and name not in inherited:
            setattr(kind, f"__{name}__", _bound(name, refusal))
    if vars(kind).get("__hash__") is None:
        kind.__hash__ = object.__hash__  # type: ignore[method-assign, assignment]


def _bound(name: str, refusal: Callable[[Any, str], NoReturn]) -> Callable[..., NoReturn]:
    def refuse(self: Any, *_: object, **__: object) -> NoReturn:
        refusal(self, name)

    return refuse
