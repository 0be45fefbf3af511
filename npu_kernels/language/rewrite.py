"""The rewriting of a kernel's source: ``for``, ``if`` and assignments report to the tracer, all else stays Python.

A ``for`` keeps its place and its body, so that ``break``, ``continue``, tracebacks and debuggers work as written; calls
to a hidden free variable stand around and inside it. Whether a loop is traced is decided while it runs, by what it
iterates over.
"""

from __future__ import annotations
import __future__

import ast
import inspect
import linecache
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CellType, CodeType, FunctionType
from typing import Any
from weakref import WeakKeyDictionary

from . import scan
from .source import Span, fail

# One underscore: with two, the body of a class would mangle them.
HOOKS = "_npk"
_FACTORY = "_npk_factory"
_FUTURE = 0
for _feature in __future__.all_feature_names:
    _FUTURE |= getattr(__future__, _feature).compiler_flag


@dataclass(frozen=True)
class Site:
    """A ``for`` or ``if`` of the source.

    Attributes:
        names: names its body assigns, in order of first assignment.
        assigned: where each was assigned last.
        refused: what its body may not contain when it is traced.
        target: the loop variable, ``None`` when it is no plain name.
        has_else: for a loop.
    """

    span: Span
    names: tuple[str, ...]
    assigned: dict[str, Span]
    refused: tuple[tuple[str, Span], ...]
    target: str | None = None
    has_else: bool = False


_prepared: WeakKeyDictionary[Callable[..., Any], Callable[..., Any]] = WeakKeyDictionary()


def prepare(fn: Callable[..., Any]) -> Callable[..., Any]:
    """``fn`` with its loops and branches rewritten, once per function; file and line numbers stay.

    Raises:
        LanguageError: NPK-LA01 when the source is not at hand.
    """
    if fn not in _prepared:
        _prepared[fn] = _rewritten(fn)
    return _prepared[fn]


def definition(fn: Callable[..., Any]) -> Span:
    """Where ``fn`` is defined."""
    code = fn.__code__
    first = code.co_firstlineno
    # The first line is that of the first decorator, which may take several.
    head = f"def {code.co_name}"
    below = (n for n in range(first, first + 32) if linecache.getline(code.co_filename, n).lstrip().startswith(head))
    return Span(code.co_filename, next(below, first), function=code.co_name)


def _rewritten(fn: Callable[..., Any]) -> Callable[..., Any]:
    from .control import Hooks

    if not isinstance(fn, FunctionType):
        raise TypeError(f"a kernel is a Python function, not a {type(fn).__name__}")
    code = fn.__code__
    node, owner = _find(fn)
    rewriter = _Rewriter(code.co_filename, code.co_name)
    rewritten = rewriter.function(node)
    free = [HOOKS, *code.co_freevars]
    # Inside a class of the same name, private names (self.__x) mean what they mean where the function stands.
    module = ast.parse(f"class {owner}:\n    def {_FACTORY}({', '.join(free)}): pass")
    around = module.body[0]
    assert isinstance(around, ast.ClassDef)
    factory = around.body[0]
    assert isinstance(factory, ast.FunctionDef)
    # Under its own name it would hide what that name means in the body: in a recursion, the decorated function.
    rewritten.name = _FACTORY
    factory.body = [rewritten]
    compiled = compile(module, code.co_filename, "exec", flags=code.co_flags & _FUTURE, dont_inherit=True)
    inner = _code(_code(_code(compiled, owner), _FACTORY), _FACTORY).replace(co_name=code.co_name)
    cells = dict(zip(code.co_freevars, fn.__closure__ or (), strict=True))
    cells[HOOKS] = CellType(Hooks(tuple(rewriter.sites)))
    made = FunctionType(inner, fn.__globals__, fn.__name__, fn.__defaults__, tuple(cells[n] for n in inner.co_freevars))
    made.__kwdefaults__ = fn.__kwdefaults__
    made.__qualname__ = fn.__qualname__
    made.__module__ = fn.__module__
    return made


def _code(outer: CodeType, name: str) -> CodeType:
    return next(c for c in outer.co_consts if isinstance(c, CodeType) and c.co_name == name)


def _find(fn: FunctionType) -> tuple[ast.FunctionDef, str]:
    """The definition of ``fn``, and the name of the innermost class around it, ``_`` when there is none."""
    span = definition(fn)
    try:
        lines, _ = inspect.findsource(fn)
        tree = ast.parse("".join(lines))
    except (OSError, SyntaxError):
        fail(
            "NPK-LA01",
            f"the source of {fn.__name__} is not at hand, and a kernel is read from its source: "
            "define it in a file or a notebook cell, not with exec or at the interactive prompt",
            span,
        )
    pending: list[tuple[ast.AST, str]] = [(tree, "_")]
    for node, owner in pending:
        if isinstance(node, ast.FunctionDef) and node.name == fn.__code__.co_name:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if first == fn.__code__.co_firstlineno:
                return node, owner
        within = node.name if isinstance(node, ast.ClassDef) else owner
        pending += [(child, within) for child in ast.iter_child_nodes(node)]
    fail(
        "NPK-LA01",
        f"no `def {fn.__name__}` stands at line {span.line} of {span.file}: a kernel is a plain function, not a lambda "
        "or a coroutine, and the file must not change while the program runs",
        span,
    )


@dataclass
class _Rewriter(ast.NodeTransformer):
    file: str
    title: str
    sites: list[Site] = field(default_factory=list)

    def function(self, node: ast.FunctionDef) -> ast.FunctionDef:
        for inner in scan.own(node.body):
            if isinstance(inner, ast.Yield | ast.YieldFrom | ast.Await):
                fail("NPK-LA01", "a kernel is no generator or coroutine: remove yield and await", self.span(inner))
        node.decorator_list = []
        node.returns = None
        node.args.defaults = [ast.copy_location(ast.Constant(None), node) for _ in node.args.defaults]
        node.args.kw_defaults = [d and ast.copy_location(ast.Constant(None), node) for d in node.args.kw_defaults]
        for arg in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg):
            if arg is not None:
                arg.annotation = None
        node.body = [new for old in node.body for new in self.statement(old)]
        return node

    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        new = self.visit(node)
        return new if isinstance(new, list) else [new]

    def statements(self, nodes: list[ast.stmt]) -> list[ast.stmt]:
        return [new for old in nodes for new in self.statement(old)]

    def span(self, node: ast.stmt | ast.expr) -> Span:
        end_line = -1 if node.end_lineno is None else node.end_lineno
        end_column = -1 if node.end_col_offset is None else node.end_col_offset
        return Span(self.file, node.lineno, node.col_offset, end_line, end_column, self.title)

    def head(self, node: ast.For | ast.If | ast.IfExp) -> Span:
        """The line of a statement without its body."""
        last = node.iter if isinstance(node, ast.For) else node.test
        end_line, end_column = last.end_lineno or -1, last.end_col_offset or -1
        return Span(self.file, node.lineno, node.col_offset, end_line, end_column, self.title)

    def site(self, node: ast.For | ast.If, body: list[ast.stmt]) -> int:
        assigned: dict[str, Span] = {}
        for name, where in scan.stores(body):
            assigned[name] = self.span(where)
        target = node.target.id if isinstance(node, ast.For) and isinstance(node.target, ast.Name) else None
        assigned.pop(target or "", None)
        refused = tuple((what, self.span(where)) for what, where in scan.refused(body, isinstance(node, ast.For)))
        has_else = isinstance(node, ast.For) and bool(node.orelse)
        self.sites.append(Site(self.head(node), tuple(assigned), assigned, refused, target, has_else))
        return len(self.sites) - 1

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        number = self.site(node, node.body)
        names = self.sites[number].names
        hidden = f"{HOOKS}_{number}"
        out = names if self.sites[number].target is None else (*names, str(self.sites[number].target))
        loop = _call(_hook("loop"), ast.Constant(number), self.visit(node.iter))
        body = [_traced(hidden, _receive(hidden, "enter", names))]
        body += self.statements(node.body)
        body.append(_traced(hidden, ast.Expr(_call(_attribute(hidden, "leave")))))
        kept = ast.For(target=node.target, iter=_load(hidden), body=body, orelse=self.statements(node.orelse))
        after = _traced(hidden, _receive(hidden, "results", out))
        made = [_assign(hidden, loop), ast.copy_location(kept, node), after]
        return [_placed(s, node) for s in made]

    def visit_If(self, node: ast.If) -> list[ast.stmt]:
        both = [*node.body, *node.orelse]
        number = self.site(node, both)
        test = self.visit(node.test)
        body, orelse = self.statements(node.body), self.statements(node.orelse)
        if any(True for _ in scan.jumps(both)):
            # The branch leaves a loop: it stays an `if`, which the hook refuses when the condition is traced.
            node.test = _call(_hook("known"), ast.Constant(number), test)
            node.body, node.orelse = body, orelse
            return [_placed(node, node)]
        names = self.sites[number].names
        hidden = f"{HOOKS}_{number}"
        side = f"{hidden}_side"
        chosen = ast.copy_location(ast.If(test=_load(side), body=body, orelse=orelse), node)
        turns = ast.For(
            target=ast.Name(side, ast.Store()),
            iter=_load(hidden),
            body=[
                _traced(hidden, _receive(hidden, "enter", names)),
                chosen,
                _traced(hidden, ast.Expr(_call(_attribute(hidden, "leave")))),
            ],
            orelse=[],
        )
        made = [
            _assign(hidden, _call(_hook("branch"), ast.Constant(number), test)),
            turns,
            _traced(hidden, _receive(hidden, "results", names)),
        ]
        return [_placed(s, node) for s in made]

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        self.generic_visit(node)
        if any(isinstance(n, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom) for n in ast.walk(node)):
            return node
        self.sites.append(Site(self.head(node), (), {}, ()))
        sides = [ast.Lambda(args=_no_arguments(), body=part) for part in (node.body, node.orelse)]
        chosen = _call(_hook("choose"), ast.Constant(len(self.sites) - 1), node.test, *sides)
        placed: ast.expr = _placed(chosen, node)
        return placed

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        self.generic_visit(node)
        names = _names(node.targets[0])
        if names is not None and len(node.targets) == 1:
            node.value = _placed(_call(_hook("name"), _constant(names), node.value), node.value)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        self.generic_visit(node)
        names = _names(node.target)
        if names is not None and node.value is not None:
            node.value = _placed(_call(_hook("name"), _constant(names), node.value), node.value)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        self.generic_visit(node)
        if not isinstance(node.target, ast.Name):
            return [node]
        named = _call(_hook("name"), ast.Constant(node.target.id), _load(node.target.id))
        return [node, _placed(ast.Expr(named), node)]


def _names(target: ast.expr) -> str | tuple[str, ...] | None:
    if isinstance(target, ast.Name):
        return target.id
    if isinstance(target, ast.Tuple) and all(isinstance(e, ast.Name) for e in target.elts):
        return tuple(e.id for e in target.elts if isinstance(e, ast.Name))
    return None


def _constant(names: str | tuple[str, ...]) -> ast.expr:
    if isinstance(names, str):
        return ast.Constant(names)
    return ast.Tuple([ast.Constant(n) for n in names], ast.Load())


def _load(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def _attribute(name: str, attribute: str) -> ast.expr:
    return ast.Attribute(_load(name), attribute, ast.Load())


def _hook(name: str) -> ast.expr:
    return _attribute(HOOKS, name)


def _call(function: ast.expr, *args: ast.expr) -> ast.Call:
    return ast.Call(function, list(args), [])


def _assign(name: str, value: ast.expr) -> ast.stmt:
    return ast.Assign([ast.Name(name, ast.Store())], value)


def _traced(hidden: str, statement: ast.stmt) -> ast.stmt:
    return ast.If(test=_attribute(hidden, "traced"), body=[statement], orelse=[])


def _receive(hidden: str, method: str, names: tuple[str, ...]) -> ast.stmt:
    call = _call(_attribute(hidden, method))
    if not names:
        return ast.Expr(call)
    return ast.Assign([ast.Tuple([ast.Name(n, ast.Store()) for n in names], ast.Store())], call)


def _no_arguments() -> ast.arguments:
    return ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])


def _placed(node: Any, origin: ast.stmt | ast.expr) -> Any:
    """Gives new nodes below ``node`` the position of ``origin``; nodes of the source keep their own."""
    for child in ast.walk(node):
        if isinstance(child, ast.stmt | ast.expr) and not hasattr(child, "lineno"):
            ast.copy_location(child, origin)
            child.end_lineno, child.end_col_offset = child.lineno, child.col_offset
    return node
