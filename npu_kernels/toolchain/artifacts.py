"""Built kernels on disk: one folder each, named by the hash of everything that went into it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .cachedir import subdirectory
from .diagnostics import LineMap
from .files import publish_directory

_LIBRARY = "kernel.so"
_LINES = "lines.tsv"
_META = "meta.json"


@dataclass(frozen=True)
class Artifact:
    """A built kernel.

    Attributes:
        hash: 64 hexadecimal digits, the name under which the runtime finds it.
        folder: holds the library, the generated source, the line map and the record of the build.
        source: path of the generated source.
    """

    hash: str
    folder: Path
    source: Path

    @property
    def library(self) -> Path:
        return self.folder / _LIBRARY


def artifact_root() -> Path:
    """The directory in which the runtime looks for ``<first two digits>/<hash>``."""
    return subdirectory("artifacts")


def folder_of(key: str) -> Path:
    return artifact_root() / key[:2] / key


def find(key: str) -> Artifact | None:
    """The artifact of a hash; ``None`` when there is none or when its library is not what was written."""
    folder = folder_of(key)
    try:
        record = json.loads((folder / _META).read_text())
        library = (folder / _LIBRARY).read_bytes()
        if hashlib.sha256(library).hexdigest() != record["library_sha256"]:
            return None
        return Artifact(key, folder, folder / record["source"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def publish(
    temporary: Path, key: str, source: str, library: Path, line_map: LineMap, record: Mapping[str, object]
) -> Artifact:
    """Completes the folder ``temporary`` and moves it to its place in the cache."""
    library.rename(temporary / _LIBRARY)
    lines = "".join(f"{line}\t{number}\t{file}\n" for line, (file, number) in sorted(line_map.items()))
    (temporary / _LINES).write_text(lines)
    digest = hashlib.sha256((temporary / _LIBRARY).read_bytes()).hexdigest()
    meta = {**record, "hash": key, "source": source, "library_sha256": digest}
    (temporary / _META).write_text(json.dumps(meta, indent=1))
    publish_directory(temporary, folder_of(key))
    return Artifact(key, folder_of(key), folder_of(key) / source)
