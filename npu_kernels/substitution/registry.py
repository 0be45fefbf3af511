"""The patterns that are known: library kernels and other packages register theirs when imported."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from importlib.metadata import entry_points
from threading import Lock

from npu_kernels.errors import SubstitutionError
from npu_kernels.substitution.pattern import Pattern

#: Other packages name a module under this group; importing it registers its patterns.
ENTRY_POINT_GROUP = "npu_kernels.kernels"
_LIBRARY = "npu_kernels.kernels"

_patterns: dict[str, Pattern] = {}
_lock = Lock()
_loaded = False


def register(pattern: Pattern) -> Pattern:
    """Make a pattern known under its name.

    Raises:
        SubstitutionError: ``NPK-SB02`` when another pattern has the name.
    """
    with _lock:
        if pattern.name in _patterns and _patterns[pattern.name] is not pattern:
            raise SubstitutionError("NPK-SB02", f"a pattern named {pattern.name!r} is registered already")
        _patterns[pattern.name] = pattern
    return pattern


def registered(names: Iterable[str] | None = None) -> tuple[Pattern, ...]:
    """All patterns, or those of the given names, in order of registration.

    Raises:
        SubstitutionError: ``NPK-SB02`` for a name nobody registered.
    """
    if names is None:
        return tuple(_patterns.values())
    wanted = tuple(names)
    for name in wanted:
        if name not in _patterns:
            known = ", ".join(sorted(_patterns)) or "none"
            raise SubstitutionError("NPK-SB02", f"no pattern is named {name!r}; registered: {known}")
    return tuple(_patterns[name] for name in wanted)


def load_kernel_library() -> None:
    """Import the library kernels and the modules other packages announce, once.

    Called by the façade and the command line before they match: no module below the kernels imports them.
    """
    global _loaded
    if _loaded:
        return
    importlib.import_module(_LIBRARY)
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        entry.load()
    _loaded = True
