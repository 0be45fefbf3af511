"""Edits of MLIR modules that know nothing of matches: clone and inline functions, merge modules, drop the unused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jax.extend.mlir import ir as mlir

Values = dict[mlir.Value[Any], mlir.Value[Any]]
Operations = dict[mlir.Operation, mlir.Operation]

#: Operations that are gone when nothing reads their results. Anything else stays: collectives, random numbers with
#: a state, transfers, and custom calls that say they have a side effect.
_PURE_DIALECTS = ("stablehlo.", "chlo.")
_IMPURE = frozenset(
    f"stablehlo.{name}"
    for name in (
        *("all_gather", "all_reduce", "all_to_all", "collective_broadcast", "collective_permute", "infeed"),
        *("outfeed", "partition_id", "recv", "reduce_scatter", "replica_id", "rng", "send", "return"),
    )
)


def functions(module: mlir.Module) -> dict[str, mlir.Operation]:
    """Functions of a module by name, in order."""
    found = {}
    for view in module.body.operations:
        operation = view.operation
        if operation.name == "func.func":
            found[symbol_name(operation)] = operation
    return found


def symbol_name(operation: mlir.Operation) -> str:
    return str(mlir.StringAttr(operation.attributes["sym_name"]).value)


def callee(operation: mlir.Operation) -> str:
    return str(mlir.FlatSymbolRefAttr(operation.attributes["callee"]).value)


def walk(operation: mlir.Operation) -> Iterator[mlir.Operation]:
    """An operation and all inside it, each before what it holds."""
    yield operation
    for region in operation.regions:
        for block in region.blocks:
            for view in block.operations:
                yield from walk(view.operation)


def pair(old: mlir.Operation, new: mlir.Operation, values: Values, operations: Operations) -> None:
    """Record what each value and operation of ``old`` became in its clone ``new``."""
    operations[old] = new
    values.update(zip(old.results, new.results, strict=True))
    for old_region, new_region in zip(old.regions, new.regions, strict=True):
        for old_block, new_block in zip(old_region.blocks, new_region.blocks, strict=True):
            values.update(zip(old_block.arguments, new_block.arguments, strict=True))
            for old_view, new_view in zip(old_block.operations, new_block.operations, strict=True):
                pair(old_view.operation, new_view.operation, values, operations)


def inline(call: mlir.Operation, body: mlir.Block, values: Values, operations: Operations) -> list[mlir.Value[Any]]:
    """Clone a function's body before a call of it; returns the values of ``body`` that the function returns.

    ``values`` must map the body's arguments; it and ``operations`` get all that is cloned. The call stays, unused.
    """
    point = mlir.InsertionPoint(call)
    for view in body.operations:
        old = view.operation
        if old.name == "func.return":
            for result, value in zip(call.results, old.operands, strict=True):
                result.replace_all_uses_with(values[value])
            return list(old.operands)
        new = old.clone(point)
        pair(old, new, values, operations)
        for inner in walk(new):
            for i, operand in enumerate(inner.operands):
                if operand in values:
                    inner.operands[i] = values[operand]
    raise AssertionError("a function body without a return does not verify")


def clone_function(module: mlir.Module, function: mlir.Operation, name: str) -> mlir.Operation:
    """A private copy of a function at the end of the module, under a new name."""
    copy = function.clone(mlir.InsertionPoint(module.body))
    copy.attributes["sym_name"] = mlir.StringAttr.get(unused_name(module, name), module.context)
    copy.attributes["sym_visibility"] = mlir.StringAttr.get("private", module.context)
    return copy


def unused_name(module: mlir.Module, name: str) -> str:
    taken = functions(module)
    candidate, count = name, 0
    while candidate in taken:
        candidate, count = f"{name}_{count}", count + 1
    return candidate


def merge(module: mlir.Module, source: str, name: str) -> str:
    """Add a module's functions as private ones, its ``main`` under ``name`` or one near it, which is returned."""
    added = mlir.Module.parse(source, module.context)
    names: dict[str, str] = {}
    copies = []
    for old, function in functions(added).items():
        copy = clone_function(module, function, name if old == "main" else old)
        names[old] = symbol_name(copy)
        copies.append(copy)
    for copy in copies:
        for operation in walk(copy):
            if operation.name == "func.call":
                new = names[callee(operation)]
                operation.attributes["callee"] = mlir.FlatSymbolRefAttr.get(new, module.context)
    return names["main"]


def erase_unread(module: mlir.Module, candidates: list[mlir.Operation]) -> None:
    """Erase candidates whose results nothing reads, then what only they read."""
    purity: dict[str, bool] = {}
    known = functions(module)
    pending = list(candidates)
    # In the order they die, readers before makers: so they can be erased.
    dead: dict[mlir.Operation, None] = {}
    while pending:
        operation = pending.pop()
        if operation in dead or not _is_pure(operation, known, purity):
            continue
        readers = (use.owner for result in operation.results for use in result.uses)
        if not all(_within(reader.operation, dead) for reader in readers):
            continue
        dead[operation] = None
        for inner in walk(operation):
            for value in inner.operands:
                maker = value.owner
                if not isinstance(maker, mlir.Block) and not _within(maker.operation, dead):
                    pending.append(maker.operation)
    for operation in dead:
        operation.erase()


def _within(operation: mlir.Operation, dead: dict[mlir.Operation, None]) -> bool:
    current: mlir.Operation | None = operation
    while current is not None:
        if current in dead:
            return True
        parent = current.parent
        current = parent.operation if parent is not None else None
    return False


def _is_pure(operation: mlir.Operation, known: dict[str, mlir.Operation], purity: dict[str, bool]) -> bool:
    name = operation.name
    if name == "func.call":
        target = callee(operation)
        if target not in purity:
            body = known[target].regions[0].blocks[0]
            purity[target] = all(
                view.operation.name == "func.return" or _is_pure(view.operation, known, purity)
                for view in body.operations
            )
        return purity[target]
    if not name.startswith(_PURE_DIALECTS) or name in _IMPURE:
        return False
    if name == "stablehlo.custom_call" and "has_side_effect" in operation.attributes:
        return not mlir.BoolAttr(operation.attributes["has_side_effect"]).value
    return all(
        view.operation.name == "stablehlo.return" or _is_pure(view.operation, known, purity)
        for region in operation.regions
        for block in region.blocks
        for view in block.operations
    )


def erase_uncalled(module: mlir.Module, candidates: set[str]) -> None:
    """Erase the candidates among the private functions that nothing refers to any more."""
    while True:
        known = functions(module)
        referred = {name for function in known.values() for name in _symbols(function)}
        unused = [name for name in candidates if name in known and name not in referred]
        if not unused:
            return
        for name in unused:
            known[name].erase()


def symbols(module: mlir.Module) -> set[str]:
    """Names of functions that some operation refers to."""
    return {name for function in functions(module).values() for name in _symbols(function)}


def _symbols(function: mlir.Operation) -> Iterator[str]:
    for operation in walk(function):
        # Constants refer to nothing, and the bindings raise for some of their attributes.
        if operation.name in ("stablehlo.constant", "func.func"):
            continue
        for named in operation.attributes:
            yield from _references(operation.attributes[_attribute_name(named)])


def _attribute_name(named: Any) -> str:
    """Iterating attributes gives names or named attributes, by release."""
    return named if isinstance(named, str) else str(named.name)


def _references(attribute: Any) -> Iterator[str]:
    if isinstance(attribute, mlir.FlatSymbolRefAttr):
        yield str(attribute.value)
    elif isinstance(attribute, mlir.ArrayAttr):
        for entry in attribute:
            yield from _references(entry)
