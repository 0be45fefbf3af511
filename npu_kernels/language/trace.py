"""From a Python function to verified tile IR."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .. import ir
from .machine import using
from .prune import prune
from .rewrite import definition, prepare
from .source import Span, authors_errors, fail, recording
from .tensor import Tensor
from .tracer import Tracer, ascii_name


@authors_errors
def trace(
    fn: Callable[..., Any],
    inputs: Mapping[str, ir.TensorType],
    statics: Mapping[str, object],
    dims: Mapping[str, int] | None = None,
) -> ir.Kernel:
    """Runs the body of ``fn`` once on traced values.

    Args:
        fn: the kernel function as its author wrote it.
        inputs: the type of each array argument, by name and in call order.
        statics: the value of each other argument.
        dims: named dimensions and their sizes, recorded in the kernel.

    Raises:
        LanguageError: what the body says that the language does not have, at the author's line.
    """
    span = definition(fn)
    tracer = Tracer(span)
    tensors = {
        name: Tensor(name, kind.shape, kind.dtype, ir.Value(kind, name), is_output=False)
        for name, kind in inputs.items()
    }
    with using(tracer), recording() as errors:
        args, kwargs = arrange(fn, {**tensors, **statics})
        result = prepare(fn)(*args, **kwargs)
        if errors:
            # The body caught it, perhaps in the middle of a loop: what was recorded since means nothing.
            raise errors[0]
        outputs = returned(result, tracer.outputs, span)
        for out in outputs:
            if out.payload not in tracer.stored and out.payload.type.size:
                fail("NPK-LA08", f"output `{out.name}` is returned but never stored: nl.store every part of it", span)
    taken = set(tensors)
    for out in outputs:
        # One name may be given to several outputs in turn, or be that of an argument.
        out.payload.name = next(n for n in _numbered(ascii_name(out.name)) if n not in taken)
        taken.add(out.payload.name)
    kernel = ir.Kernel(
        name=fn.__name__,
        inputs=[t.payload for t in tensors.values()],
        outputs=[t.payload for t in outputs],
        body=tracer.root.block,
        location=span.location,
        statics=dict(statics),
        dims=dict(dims or {}),
    )
    return ir.verify(prune(kernel))


def _numbered(name: str) -> Iterator[str]:
    yield name
    yield from (f"{name}_{number}" for number in itertools.count(2))


def arrange(fn: Callable[..., Any], values: Mapping[str, object]) -> tuple[list[Any], dict[str, Any]]:
    """Arguments by name as ``fn`` takes them."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    left = dict(values)
    for parameter in inspect.signature(fn).parameters.values():
        if parameter.name not in left:
            continue
        value = left.pop(parameter.name)
        if parameter.kind is parameter.POSITIONAL_ONLY:
            args.append(value)
        else:
            kwargs[parameter.name] = value
    if left:
        raise TypeError(f"{fn.__name__} has no parameter {', '.join(left)}")
    return args, kwargs


def returned(result: object, made: list[Tensor], span: Span) -> list[Tensor]:
    """The outputs a body returned; NPK-LA08 unless these are the outputs it made, each once."""
    items: list[Tensor] = []
    for item in result if isinstance(result, tuple | list) else [result]:
        if not isinstance(item, Tensor) or not item.is_output:
            what = "None" if item is None else f"a {type(item).__name__}"
            fail(
                "NPK-LA08",
                f"a kernel returns its outputs, and this one returns {what}: "
                "out = nl.output(shape, dtype), nl.store(out[...], tile), return out",
                span,
            )
        items.append(item)
    if len({id(i) for i in items}) != len(items):
        fail("NPK-LA08", "one output is returned twice: make an nl.output for each result", span)
    missing = [t.name for t in made if all(t is not i for i in items)]
    if missing:
        fail("NPK-LA08", f"output `{missing[0]}` is made but not returned: return all outputs, as a tuple", span)
    return items
