"""Builds many kernels at once: one compilation shares what they instantiate, and the linker makes a library of each.

The libraries go to the artifact cache, where a call finds them. They hold what a build of their own gives, made with
the same flags.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from npu_kernels.toolchain import artifact_key, artifacts, find_compiler, precompiled_header
from npu_kernels.toolchain.cachedir import subdirectory, writing
from npu_kernels.toolchain.files import temporary_directory
from npu_kernels.toolchain.flags import compile_flags
from npu_kernels.toolchain.process import run_compiler

Source = Any


def build_together(sources: Iterable[Source], *, checked: bool) -> None:
    """Puts the kernels that the cache lacks into it. Their names differ.

    A kernel that the compiler rejects makes the call do nothing: each is then built where it is called, and says so.
    """
    compiler = find_compiler()
    missing = {key: s for s in sources if artifacts.find(key := artifact_key(s, compiler, checked=checked)) is None}
    flags = compile_flags(compiler, checked=checked)
    unit = ['#include "kernel_operator.h"', '#include "npk/entry.h"']
    for number, source in enumerate(missing.values()):
        unit += [
            f"#define npk_kernel_desc npk_kernel_desc_{number}",
            f'#include "{source.entry}.cpp"',
            f"NPK_TWIN_ENTRY({source.entry}, {source.num_args}, {source.kernel_type})",
            "#undef npk_kernel_desc",
        ]
    header = precompiled_header(compiler, checked=checked)
    with writing(), temporary_directory(subdirectory("tmp")) as folder:
        for source in missing.values():
            (folder / f"{source.entry}.cpp").write_text(source.text)
        compiled = run_compiler(
            [*compiler.argv, *flags, *header.flags, "-I.", "-pipe", "-c", "-x", "c++", "-", "-o", "all.o"],
            cwd=folder,
            stdin="\n".join([*unit, ""]),
        )
        if compiled.returncode != 0:
            return
        for number, (key, source) in enumerate(missing.items()):
            with temporary_directory(subdirectory("tmp")) as own:
                file = f"{source.entry}.cpp"
                (own / file).write_text(source.text)
                # What a kernel leaves undefined is found here, and not when it is loaded.
                link = ["-shared", "-Wl,-z,defs", f"-Wl,--defsym,npk_kernel_desc=npk_kernel_desc_{number}"]
                parts = [str(folder / "all.o"), *header.link_flags, "-o", "library"]
                linked = run_compiler([*compiler.argv, *link, *parts], cwd=own)
                assert linked.returncode == 0, linked.stderr
                record = {"name": source.name, "entry": source.entry, "checked": checked, "command": linked.args}
                artifacts.publish(own, key, file, own / "library", source.line_map, record)
