"""npu_kernels: Ascend NPU kernels written as Python functions, called from JAX.

This façade loads a name when it is first used, so that importing the package costs nothing and no module of the
package imports it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .binding import Kernel as Kernel
    from .binding import debug as debug
    from .binding import launches as launches
    from .binding import npu_kernel as npu_kernel
    from .binding import save_kernels as save_kernels
    from .substitution.explain import explain as explain
    from .substitution.explain import require as require
    from .substitution.module import substitute_module as substitute_module
    from .substitution.substitute import substitute as substitute

#: Public name → (module that has it, whether the kernel library must be registered before it is used).
_EXPORTS: dict[str, tuple[str, bool]] = {
    "npu_kernel": ("npu_kernels.binding", False),
    "Kernel": ("npu_kernels.binding", False),
    "launches": ("npu_kernels.binding", False),
    "debug": ("npu_kernels.binding", False),
    "save_kernels": ("npu_kernels.binding", False),
    "substitute": ("npu_kernels.substitution", True),
    "explain": ("npu_kernels.substitution", True),
    "require": ("npu_kernels.substitution", True),
    "substitute_module": ("npu_kernels.substitution", True),
}
_MODULES = ("errors", "kernels", "language")

__all__ = [*_EXPORTS, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"npu_kernels.{name}")
    if name not in _EXPORTS:
        raise AttributeError(f"module 'npu_kernels' has no attribute {name!r}")
    module_name, needs_library = _EXPORTS[name]
    module = importlib.import_module(module_name)
    if needs_library:
        importlib.import_module("npu_kernels.substitution").load_kernel_library()
    value = getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
