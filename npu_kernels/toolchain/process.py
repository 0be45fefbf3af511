"""Runs a compiler, and leaves nothing of it behind when the user interrupts."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from npu_kernels.errors import ToolchainError

#: Seconds after which a compiler is taken for hung; a kernel takes about one.
TIMEOUT = 600.0

#: What compilers and linkers say when the disk is full, and how a driver tells that one of its programs was killed.
_NO_ROOM = re.compile("No space left on device|Disk quota exceeded|File too large|File size limit exceeded")
_KILLED = re.compile(r"(\w[\w ]*?) signal terminated program (\S+)")


def run_compiler(
    argv: Sequence[str], *, cwd: Path | None = None, stdin: str = "", env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs ``argv`` and returns its exit status and output.

    The compiler's driver and the processes it starts form one group, which is killed when this call ends early.

    Raises:
        ToolchainError: NPK-TC03, when it cannot be started, does not end, or was killed by a signal.
        OSError: when it found no room for its files.
    """
    with _started(argv, cwd, env) as process:
        return _finished(process, argv, cwd, stdin)


def run_compilers(
    commands: Sequence[Sequence[str]], *, cwd: Path, env: Mapping[str, str]
) -> list[subprocess.CompletedProcess[str]]:
    """Runs all of ``commands`` at the same time, without input; else as :func:`run_compiler`."""
    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(_started(argv, cwd, env)) for argv in commands]
        return [_finished(process, argv, cwd, "") for process, argv in zip(processes, commands, strict=True)]


@contextlib.contextmanager
def _started(argv: Sequence[str], cwd: Path | None, env: Mapping[str, str] | None) -> Iterator[subprocess.Popen[str]]:
    """The running program; its group is killed when the ``with`` ends with an exception."""
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
        yield process
    except BaseException:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        raise


def _finished(
    process: subprocess.Popen[str], argv: Sequence[str], cwd: Path | None, stdin: str
) -> subprocess.CompletedProcess[str]:
    try:
        stdout, stderr = process.communicate(stdin, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        raise ToolchainError("NPK-TC03", f"{argv[0]} did not end within {TIMEOUT:.0f} seconds.") from None
    if process.returncode != 0 and (_NO_ROOM.search(stderr) or -process.returncode == signal.SIGXFSZ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(cwd or "."))
    killed = _KILLED.search(stderr) if process.returncode > 0 else None
    if process.returncode < 0 or killed is not None:
        name = killed.group(1) if killed is not None else signal.Signals(-process.returncode).name
        raise ToolchainError(
            "NPK-TC03", f"{argv[0]} was ended by {name}; is there enough memory? Its last words:\n{stderr[-2000:]}"
        )
    return subprocess.CompletedProcess(list(argv), process.returncode, stdout, stderr)
