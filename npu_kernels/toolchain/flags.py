"""The compiler's command line for a kernel."""

from __future__ import annotations

import platform

from .compiler import HostCompiler

_COMMON = (
    "-std=c++17",
    "-fPIC",
    "-fvisibility=hidden",
    # IEEE results: every operation is rounded on its own. Errno and traps are not results; leaving them out
    # lets loops vectorise.
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    # One buffer is read under several element types (ReinterpretCast, bit masks).
    "-fno-strict-aliasing",
    # A frame larger than the guard page behind a core's stack meets it too.
    "-fstack-clash-protection",
)


def compile_flags(compiler: HostCompiler, *, checked: bool) -> tuple[str, ...]:
    """Flags that a kernel and its precompiled header share."""
    flags = [*_COMMON, _native_cpu(compiler)]
    if checked:
        # Speed is not what this mode is for, but its builds are waited for.
        flags += ["-O1", "-DNPK_TWIN_CHECKED=1"]
    else:
        flags += ["-O3"]
    return tuple(flags)


def _native_cpu(compiler: HostCompiler) -> str:
    # Clang takes the host's CPU on Arm only through -mcpu.
    if compiler.family == "clang" and platform.machine() in ("aarch64", "arm64"):
        return "-mcpu=native"
    return "-march=native"
