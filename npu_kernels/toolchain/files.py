"""Files that are either there, whole, or not there."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

#: Seconds after which a temporary directory is taken for one whose process was killed.
_ABANDONED = 3600.0


def write_atomically(path: Path, text: str) -> None:
    """Writes ``text`` under another name and renames it, so that no reader sees a part of it."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


@contextlib.contextmanager
def temporary_directory(parent: Path) -> Iterator[Path]:
    """A directory that is removed at the end, unless it was renamed; sweeps what killed processes left."""
    _sweep(parent)
    path = Path(tempfile.mkdtemp(dir=parent))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def publish_directory(temporary: Path, final: Path) -> None:
    """Moves a finished directory to its place; when another process was first, theirs stays."""
    for path in temporary.iterdir():
        _sync(path)
    _sync(temporary)
    final.parent.mkdir(mode=0o700, exist_ok=True)
    try:
        os.rename(temporary, final)
    except OSError:
        if not final.is_dir():
            raise
        return
    _sync(final.parent)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sweep(parent: Path) -> None:
    for path in parent.iterdir():
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _ABANDONED:
                shutil.rmtree(path, ignore_errors=True)
