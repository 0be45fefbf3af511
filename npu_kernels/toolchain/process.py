"""Runs a compiler, and leaves nothing of it behind when the user interrupts."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from npu_kernels.errors import ToolchainError

#: Seconds after which a compiler is taken for hung; a kernel takes about one.
TIMEOUT = 600.0


def run_compiler(
    argv: Sequence[str], *, cwd: Path | None = None, stdin: str = "", env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs ``argv`` and returns its exit status and output.

    The compiler's driver and the processes it starts form one group, which is killed when this call ends early.

    Raises:
        ToolchainError: NPK-TC03, when it cannot be started, does not end, or was killed by a signal.
    """
    try:
        process = subprocess.Popen(
            argv,
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            # Messages are read by a program as well: always in English.
            env={**os.environ, **(env or {}), "LC_ALL": "C"},
            start_new_session=True,
        )
    except OSError as error:
        raise ToolchainError("NPK-TC03", f"{argv[0]} could not be started: {error.strerror}.") from None
    try:
        stdout, stderr = process.communicate(stdin, timeout=TIMEOUT)
    except BaseException as error:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise ToolchainError("NPK-TC03", f"{argv[0]} did not end within {TIMEOUT:.0f} seconds.") from None
        raise
    if process.returncode < 0:
        name = signal.Signals(-process.returncode).name
        raise ToolchainError(
            "NPK-TC03", f"{argv[0]} was killed by {name}; is there enough memory? Its last words:\n{stderr[-2000:]}"
        )
    return subprocess.CompletedProcess(list(argv), process.returncode, stdout, stderr)
