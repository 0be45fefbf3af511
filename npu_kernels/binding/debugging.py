"""Checked mode as a context, known to ``jax.jit``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import jax

from npu_kernels import knobs

# Part of the key of jit's caches: a function compiled outside of the context is compiled again inside.
_check = jax.make_user_context(None)


def checked_mode() -> bool:
    """Whether a call that does not say so itself runs in the twin's checked mode."""
    value: bool | None = _check.value
    return knobs.CHECK.get() if value is None else value


@contextmanager
def debug(*, check: bool = True) -> Iterator[None]:
    """Inside, every kernel runs in the twin's checked mode; ``check=False`` switches it off again.

    A call's mode is decided when it is traced: ``jax.jit`` traces and compiles a function anew inside the context, and
    takes its earlier executable outside. A function that was compiled ahead of time keeps its mode. The context belongs
    to the thread. ``NPU_KERNELS_CHECK=1`` does the same for a whole process; a call's own ``check=`` comes first.
    """
    with _check(check):
        yield
