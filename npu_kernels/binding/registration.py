"""The native runtime as Python and XLA see it: the FFI target, launch counts, faults."""

from __future__ import annotations

import functools
import re
import threading
from collections import Counter

from npu_kernels import _native, errors, jax_compat, knobs
from npu_kernels.errors import Fault
from npu_kernels.toolchain.artifacts import artifact_root

#: Name of the custom call's target in StableHLO and in XLA's registry.
TARGET = "npu_kernels.launch"


_registration = threading.Lock()


def ensure_registered() -> None:
    """Makes XLA:CPU know the custom call, and the runtime the user's cache and settings.

    Lowering a kernel does it; a program that only runs exported executables calls it before it loads them.

    Raises:
        CacheError: NPK-CA02, when the cache directory is not safe to use.
        KnobError: NPK-KN01, when a setting cannot be used.
    """
    _native.set_threads(knobs.THREADS.get() or 0)
    with _registration:
        _register()
    _native.add_artifact_root(str(artifact_root()))


@functools.cache
def _register() -> None:
    jax_compat.register_stateful_ffi_target(TARGET, _native.ffi_target(), _native.ffi_state_type())


def launches() -> Counter[str]:
    """How often each kernel was launched, by name: executions, so a call inside a loop counts each time."""
    counts: Counter[str] = Counter()
    for name, _, count in _native.launches():
        counts[name] += count
    return +counts  # without kernels that were loaded but not launched since the last reset


def reset_launches() -> None:
    """Sets all counts to zero."""
    _native.reset_launches()


def _fault(launch_id: int | None) -> Fault | None:
    report = _native.last_fault() if launch_id is None else _native.fault_of_launch(launch_id)
    if report is None:
        return None
    report.pop("thread")
    return Fault(**report)


def fault_in(message: str) -> Fault | None:
    """The fault that an error message of a launch tells of; ``None`` when the message is another one."""
    launch = re.search(r"\(launch (\d+); npu_kernels", message)
    return _fault(int(launch.group(1))) if launch else None


errors.set_fault_source(_fault)
