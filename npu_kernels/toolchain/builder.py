"""Builds a kernel, or finds that it was built before."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import warnings
from pathlib import Path
from typing import Protocol

from filelock import FileLock

from npu_kernels import _native

from . import artifacts
from .artifacts import Artifact
from .cachedir import subdirectory, writing
from .compiler import HostCompiler, find_compiler
from .cpu import cpu_identity
from .diagnostics import LineMap, rejection
from .files import temporary_directory
from .flags import compile_flags
from .headers import headers_hash
from .precompiled import plain_header_flags, precompiled_header
from .process import run_compiler

#: Counts up when the layout of an artifact's folder or the wrapper around a kernel changes.
_FORMAT = 1


class Source(Protocol):
    """What a build needs of a generated kernel; ``ir.device.KernelSource`` is one.

    Attributes:
        name: what people call the kernel.
        text: the Ascend C source.
        entry: the kernel function in it.
        kernel_type: ``AIV_ONLY``, ``AIC_ONLY``, ``MIX_AIC_1_1`` or ``MIX_AIC_1_2``.
        num_args: parameters of the function, workspace and tiling included.
        line_map: lines of the text to Python's file and line.
    """

    @property
    def name(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def entry(self) -> str: ...
    @property
    def kernel_type(self) -> str: ...
    @property
    def num_args(self) -> int: ...
    @property
    def line_map(self) -> LineMap: ...


def artifact_key(source: Source, compiler: HostCompiler, *, checked: bool) -> str:
    """The hash of everything that can change the artifact."""
    inputs = {
        "format": _FORMAT,
        "abi": _native.ABI_VERSION,
        "name": source.name,
        "text": source.text,
        "entry": source.entry,
        "kernel_type": source.kernel_type,
        "num_args": source.num_args,
        "lines": sorted(source.line_map.items()),
        "compiler": compiler.identity,
        "flags": compile_flags(compiler, checked=checked),
        "cpu": cpu_identity(),
        "headers": headers_hash(),
    }
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def build(source: Source, *, checked: bool = False) -> Artifact:
    """The artifact of a kernel, from the cache or built now.

    Safe to call from many threads and processes: one builds, the others wait for it. A process that is killed at
    any point leaves the cache as it was.

    Raises:
        ToolchainError: NPK-TC01, TC02 or TC03.
        CacheError: NPK-CA02, when the cache directory is not safe to use or cannot be written.
    """
    compiler = find_compiler()
    key = artifact_key(source, compiler, checked=checked)
    artifact = artifacts.find(key)
    if artifact is None:
        with writing(), FileLock(subdirectory("locks") / f"artifact-{key[:2]}.lock"):
            artifact = artifacts.find(key)
            if artifact is None:
                artifact = _compile(source, compiler, key, checked=checked)
    _native.add_artifact_root(str(artifacts.artifact_root()))
    return artifact


def _compile(source: Source, compiler: HostCompiler, key: str, *, checked: bool) -> Artifact:
    folder = artifacts.folder_of(key)
    if folder.exists():
        warnings.warn(f"NPK-CA03: the artifact in {folder} is damaged; it is built again.", stacklevel=2)
        shutil.rmtree(folder)
    file = f"{source.entry}.cpp"
    header = precompiled_header(compiler, checked=checked)
    with temporary_directory(subdirectory("tmp")) as temporary:
        (temporary / file).write_text(source.text)
        library = temporary / "library"
        wrapper = (
            f'#include "kernel_operator.h"\n#include "npk/entry.h"\n#include "{file}"\n'
            f"NPK_TWIN_ENTRY({source.entry}, {source.num_args}, {source.kernel_type})\n"
        )

        def run(header_flags: tuple[str, ...], link_flags: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
            flags = (*compile_flags(compiler, checked=checked), *header_flags, "-I.", "-shared", "-pipe")
            return run_compiler(
                [*compiler.argv, *flags, "-x", "c++", "-", *link_flags, "-o", library.name],
                cwd=temporary,
                stdin=wrapper,
                env={"TMPDIR": str(temporary)},
            )

        result = run(header.flags, header.link_flags)
        if result.returncode != 0 and header.is_at_fault(result.stderr):
            warnings.warn(
                f"NPK-CA03: the precompiled header or an object in {header.folder} cannot be used, so {source.name} is "
                "built without them; the next build makes them anew.",
                stacklevel=2,
            )
            header.discard()
            result = run(plain_header_flags())
        if result.returncode != 0:
            kept = _keep(key, file, source.text, result.stderr)
            raise rejection(compiler, source.name, file, source.text, source.line_map, result.stderr, kept)
        record = {
            "name": source.name,
            "entry": source.entry,
            "kernel_type": source.kernel_type,
            "checked": checked,
            "compiler": compiler.version,
            "command": result.args,
        }
        return artifacts.publish(temporary, key, file, library, source.line_map, record)


def _keep(key: str, file: str, text: str, output: str) -> Path:
    """Leaves a rejected kernel where its author can look at it."""
    folder = subdirectory("rejected") / key[:16]
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / file).write_text(text)
    (folder / "compiler.txt").write_text(output)
    return folder
