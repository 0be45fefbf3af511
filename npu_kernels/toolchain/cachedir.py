"""The directory that holds built kernels. Loading from it runs code, so only this user may write to it."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import platformdirs

from npu_kernels import knobs
from npu_kernels.errors import CacheError

_ADVICE = "Set NPU_KERNELS_CACHE_DIR to a directory that belongs to you and that nobody else can write to."


def cache_directory() -> Path:
    """The cache of this user, created with mode 0700 when it is not there.

    Raises:
        CacheError: NPK-CA02, when the directory cannot be made, belongs to another user, or when another user
            could write to it or put another directory in its place.
    """
    setting = knobs.CACHE_DIR.get()
    path = Path(setting) if setting is not None else platformdirs.user_cache_path("npu-kernels", appauthor=False)
    path = path.expanduser().absolute()
    try:
        for folder in (*reversed(path.parents), path):
            folder.mkdir(mode=0o700, exist_ok=True)
        path = path.resolve(strict=True)
    except OSError as error:
        raise CacheError(
            "NPK-CA02", f"the cache directory {path} cannot be used: {error.strerror}. {_ADVICE}"
        ) from None
    _refuse_unsafe(path)
    return path


def subdirectory(name: str) -> Path:
    """A directory inside the cache, made when it is not there."""
    path = cache_directory() / name
    with writing():
        path.mkdir(mode=0o700, exist_ok=True)
    return path


@contextlib.contextmanager
def writing() -> Iterator[None]:
    """Turns what the system says against writing into the cache into NPK-CA02."""
    try:
        yield
    except OSError as error:
        raise CacheError(
            "NPK-CA02",
            f"{error.filename or cache_directory()} in the cache cannot be written: {error.strerror}. "
            "Free the disk or permit writing, or set NPU_KERNELS_CACHE_DIR to another directory.",
        ) from None


def _refuse_unsafe(path: Path) -> None:
    status = path.stat()
    if status.st_uid != os.geteuid():
        raise CacheError(
            "NPK-CA02",
            f"the cache directory {path} belongs to user {status.st_uid}, but this process runs as user "
            f"{os.geteuid()}. {_ADVICE}",
        )
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise CacheError(
            "NPK-CA02",
            f"other users can write to the cache directory {path} (mode {stat.S_IMODE(status.st_mode):04o}). "
            f"Run `chmod 700 {path}` if you trust what is in it. {_ADVICE}",
        )
    for parent in path.parents:
        if _replaceable(parent.stat()):
            raise CacheError(
                "NPK-CA02",
                f"another user can replace the cache directory {path}, because {parent} can be written by others "
                f"or belongs to another user. {_ADVICE}",
            )


def _replaceable(status: os.stat_result) -> bool:
    """Whether somebody other than this user and root can rename what lies in a directory."""
    if status.st_uid not in (0, os.geteuid()):
        return True
    if status.st_mode & stat.S_ISVTX:
        return False
    if status.st_mode & stat.S_IWOTH:
        return True
    # Many systems give each user a group of their own and a umask of 002.
    return bool(status.st_mode & stat.S_IWGRP) and status.st_gid not in (0, os.getegid())
