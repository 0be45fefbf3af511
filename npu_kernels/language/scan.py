"""What the body of a loop or branch assigns, and what it holds that cannot be traced."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def own(body: list[ast.stmt]) -> Iterator[ast.stmt | ast.expr]:
    """Statements and expressions of a body, without those of functions and classes defined in it."""
    pending: list[ast.AST] = list(reversed(body))
    while pending:
        node = pending.pop()
        if isinstance(node, ast.stmt | ast.expr):
            yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            pending.extend(reversed(list(ast.iter_child_nodes(node))))


def stores(body: list[ast.stmt]) -> Iterator[tuple[str, ast.stmt | ast.expr]]:
    comprehension = {
        id(part)
        for node in own(body)
        if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp)
        for generator in node.generators
        for part in ast.walk(generator.target)
    }
    for node in own(body):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del) and id(node) not in comprehension:
            yield node.id, node
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name, node


def jumps(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """``break`` and ``continue`` that leave the body."""
    for node in body:
        if isinstance(node, ast.Break | ast.Continue):
            yield node
        elif isinstance(node, ast.For | ast.While):
            yield from jumps(node.orelse)
        elif not isinstance(node, ast.FunctionDef | ast.ClassDef):
            for name in ("body", "orelse", "finalbody", "handlers", "cases"):
                yield from jumps(getattr(node, name, []))


def refused(body: list[ast.stmt], is_loop: bool) -> Iterator[tuple[str, ast.stmt | ast.expr]]:
    for jump in jumps(body):
        yield type(jump).__name__.lower(), jump
    words: dict[type[ast.AST], str] = {
        ast.Return: "return",
        ast.Try: "try",
        ast.TryStar: "try",
        ast.Match: "match",
        ast.With: "with",
        ast.Global: "global",
        ast.Nonlocal: "nonlocal",
        ast.Delete: "del",
        ast.FunctionDef: "a nested function",
        ast.ClassDef: "a class",
    }
    for node in own(body):
        if type(node) in words:
            yield words[type(node)], node
