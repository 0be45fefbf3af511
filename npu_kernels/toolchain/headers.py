"""The twin's headers, which are a part of every kernel."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from npu_kernels import _native


@functools.cache
def include_directory() -> Path:
    """Where `kernel_operator.h` lies: beside the native module, also when the package is installed editable."""
    assert _native.__file__ is not None
    return Path(_native.__file__).resolve().parent / "include"


@functools.cache
def headers_hash() -> str:
    """A hash over the names and contents of all of the twin's headers."""
    root = include_directory()
    digest = hashlib.sha256()
    for header in sorted(root.rglob("*.h")):
        digest.update(f"{header.relative_to(root).as_posix()}\0".encode())
        digest.update(hashlib.sha256(header.read_bytes()).digest())
    return digest.hexdigest()
