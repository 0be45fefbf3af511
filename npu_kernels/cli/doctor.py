"""What `npu-kernels doctor` looks at: one finding per line, each ok or with what to do."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from npu_kernels import knobs
from npu_kernels.errors import NpuKernelsError

_OLDEST_PYTHON = (3, 11)
_OLDEST_JAX = (0, 10, 2)


@dataclass(frozen=True)
class Finding:
    """One line of the report.

    Attributes:
        subject: what was looked at.
        state: ``ok``; ``absent`` for what is optional and not there; ``bad`` for what keeps kernels from running.
        text: what was found, and for ``bad`` what to do.
    """

    subject: str
    state: Literal["ok", "absent", "bad"]
    text: str


def examine() -> Iterator[Finding]:
    """Looks at everything a kernel needs on this machine. What goes wrong becomes a finding."""
    for subject, check in _CHECKS.items():
        try:
            yield check(subject)
        except NpuKernelsError as error:
            yield Finding(subject, "bad", str(error))
        except ImportError as error:
            yield Finding(subject, "bad", f"cannot be looked at ({error}): reinstall npu-kernels")


def _python(subject: str) -> Finding:
    found = f"{platform.python_version()} at {sys.executable}"
    if sys.version_info[:2] < _OLDEST_PYTHON:
        return Finding(subject, "bad", f"{found}: install Python 3.11 or newer")
    return Finding(subject, "ok", found)


def _jax(subject: str) -> Finding:
    try:
        jax = importlib.import_module("jax")
        jaxlib = importlib.metadata.version("jaxlib")
    except ImportError as error:
        return Finding(subject, "bad", f"cannot be imported ({error}): pip install 'jax>=0.10.2'")
    found = f"{jax.__version__} with jaxlib {jaxlib}"
    if jax.__version_info__ < _OLDEST_JAX:
        return Finding(subject, "bad", f"{found} is too old: pip install -U 'jax>=0.10.2'")
    return Finding(subject, "ok", found)


def _runtime(subject: str) -> Finding:
    try:
        native = importlib.import_module("npu_kernels._native")
    except ImportError as error:
        return Finding(subject, "bad", f"the package's native library does not load ({error}): reinstall npu-kernels")
    return Finding(subject, "ok", f"launch ABI {native.ABI_VERSION}")


# The toolchain loads the native library; the report must come out without it too.


def _compiler(subject: str) -> Finding:
    compiler = importlib.import_module("npu_kernels.toolchain").find_compiler()
    return Finding(subject, "ok", f"{compiler.argv[0]}, {compiler.version}")


def _cann(subject: str) -> Finding:
    home = knobs.CANN_HOME.get()
    if home is None:
        return Finding(
            subject, "absent", "not installed; kernels run on the twin (set ASCEND_HOME_PATH when you have CANN)"
        )
    if not Path(home).is_dir():
        return Finding(subject, "bad", f"ASCEND_HOME_PATH={home} is no directory: correct or unset it")
    return Finding(subject, "ok", home)


def _devices(subject: str) -> Finding:
    devices = sorted(file.name for file in Path("/dev").glob("davinci[0-9]*"))
    if not devices:
        return Finding(subject, "absent", "no NPU on this machine; kernels run on the twin")
    return Finding(subject, "absent", f"{', '.join(devices)}: this version runs kernels on the twin only")


def _cache(subject: str) -> Finding:
    folder: Path = importlib.import_module("npu_kernels.toolchain").cache_directory()
    files = [file.stat().st_size for file in folder.rglob("*") if file.is_file()]
    return Finding(subject, "ok", f"{folder}, {len(files)} files, {sum(files) / 2**20:.0f} MiB")


def _settings(subject: str) -> Finding:
    shown = [f"{knob.name}={knob.get()}" for knob in knobs.KNOBS if os.environ.get(knob.name)]
    return Finding(subject, "ok", ", ".join(shown) or "all at their defaults")


_CHECKS: dict[str, Callable[[str], Finding]] = {
    "Python": _python,
    "JAX": _jax,
    "runtime": _runtime,
    "C++ compiler": _compiler,
    "CANN": _cann,
    "devices": _devices,
    "cache": _cache,
    "settings": _settings,
}
