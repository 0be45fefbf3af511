"""What tells this host's CPU from another's: kernels are compiled for the CPU they run on."""

from __future__ import annotations

import functools
import platform
from pathlib import Path

_LINES = ("vendor_id", "cpu family", "model", "model name", "flags", "CPU implementer", "CPU part", "Features")


@functools.cache
def cpu_identity() -> str:
    """The machine and, where the system tells, the maker, model and feature list of its first CPU."""
    identity = [platform.machine()]
    try:
        with Path("/proc/cpuinfo").open() as cpuinfo:
            for line in cpuinfo:
                key, _, value = line.partition(":")
                if not key.strip():
                    break  # the second CPU begins
                if key.strip() in _LINES:
                    identity.append(f"{key.strip()}={value.strip()}")
    except OSError:
        identity.append(platform.processor())
    return "\n".join(identity)
