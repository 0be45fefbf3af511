"""From the text of a kernel to a library that the runtime loads: host compiler, precompiled header, artifact cache."""

from __future__ import annotations

from .artifacts import Artifact
from .builder import Source, artifact_key, build
from .cachedir import cache_directory
from .compiler import HostCompiler, find_compiler
from .headers import include_directory
from .precompiled import precompiled_header

__all__ = [
    "Artifact",
    "HostCompiler",
    "Source",
    "artifact_key",
    "build",
    "cache_directory",
    "find_compiler",
    "include_directory",
    "precompiled_header",
]
