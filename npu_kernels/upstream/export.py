"""Writes a library kernel as an operator folder of CANN's operator repositories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jinja2

from npu_kernels.errors import CommandError
from npu_kernels.kernels import Operation, catalogue

from .operators import OPERATORS, OperatorText
from .sections import split_source
from .variants import DTYPES, Variant, camel, make_variant

#: Products of arch 2201, under the names the operator registry knows.
SOCS = ("ascend910b", "ascend910_93")
#: File in the folder → template; ``{op}`` is the operator's name.
FILES: Mapping[str, str] = {
    "CMakeLists.txt": "CMakeLists.txt.j2",
    "README.md": "README.md.j2",
    "op_host/CMakeLists.txt": "op_host/CMakeLists.txt.j2",
    "op_host/{op}_def.cpp": "op_host/def.cpp.j2",
    "op_host/{op}_infershape.cpp": "op_host/infershape.cpp.j2",
    "op_host/{op}_tiling.cpp": "op_host/tiling.cpp.j2",
    "op_kernel/{op}.cpp": "op_kernel/kernel.cpp.j2",
    "op_kernel/{op}.h": "op_kernel/kernel.h.j2",
    "op_kernel/{op}_tiling_data.h": "op_kernel/tiling_data.h.j2",
    "op_kernel/{op}_tiling_key.h": "op_kernel/tiling_key.h.j2",
    "tests/CMakeLists.txt": "tests/CMakeLists.txt.j2",
    "tests/ut/CMakeLists.txt": "tests/ut_CMakeLists.txt.j2",
    "tests/ut/op_host/CMakeLists.txt": "tests/op_host/CMakeLists.txt.j2",
    "tests/ut/op_host/test_{op}_infershape.cpp": "tests/op_host/test_infershape.cpp.j2",
    "tests/ut/op_host/test_{op}_tiling.cpp": "tests/op_host/test_tiling.cpp.j2",
    "tests/ut/op_kernel/CMakeLists.txt": "tests/op_kernel/CMakeLists.txt.j2",
    "examples/test_aclnn_{op}.cpp": "examples/test_aclnn.cpp.j2",
}

_ENVIRONMENT = jinja2.Environment(
    loader=jinja2.PackageLoader("npu_kernels.upstream"),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


def export(
    kernel: str,
    shapes: Sequence[Sequence[tuple[int, ...]]],
    directory: str | Path,
    *,
    dtypes: Sequence[str] = ("float32", "float16", "bfloat16"),
    keywords: Mapping[str, Any] | None = None,
    licence: str = "",
    overwrite: bool = False,
) -> list[Path]:
    """Writes the operator folder ``<directory>/npk_<kernel>``.

    The operator has one specialisation, with its own tiling key, for each combination of shapes and element type, and
    refuses calls with other ones. Its unit test (GoogleTest, ``tests/ut/op_kernel``) runs on the twin. Nothing is
    written before every file has been generated.

    Args:
        kernel: name of a library operation; ``rms_norm`` for now.
        shapes: one entry per specialisation: the shapes of the operation's arrays in order; empty takes the first
            example of the operation.
        dtypes: element types of the arrays.
        keywords: the operation's other arguments; None takes those of its first example.
        licence: text that becomes the first comment of every source and CMake file.
        overwrite: write over a folder that is there already; otherwise it is left alone and refused.

    Returns:
        The files, in order of their names.

    Raises:
        CommandError: NPK-EX10, when the kernel cannot be exported or the folder is there or cannot be written;
            NPK-CL01, when there is no such kernel.
    """
    operation, text = _find(kernel)
    example = operation.examples[0]
    sets = [tuple(map(tuple, one)) for one in shapes] or [tuple(example.shapes.values())]
    arguments = dict(example.keywords if keywords is None else keywords)
    for dtype in dtypes:
        if dtype not in DTYPES:
            raise CommandError("NPK-EX10", f"{kernel} cannot be exported for {dtype}; use {', '.join(DTYPES)}.")
    variants = [make_variant(operation, text, one, dtype, arguments) for one in sets for dtype in dtypes]
    op = f"npk_{operation.name}"
    folder = Path(directory) / op
    if folder.exists() and not overwrite:
        raise CommandError(
            "NPK-EX10", f"{folder} is there already: remove it, name another folder, or pass --overwrite."
        )
    context = {**_context(op, operation, text, variants), "licence": licence}
    templates = {**FILES, "tests/ut/op_kernel/test_{op}.cpp": text.unit_test}
    texts = {
        folder / file.format(op=op): _ENVIRONMENT.get_template(template).render(context)
        for file, template in templates.items()
    }
    try:
        for file, content in texts.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(_licensed(file, content, licence), encoding="utf-8")
    except OSError as error:
        raise CommandError(
            "NPK-EX10", f"{error.filename} cannot be written: {error.strerror}. Name another folder."
        ) from error
    return sorted(texts)


def _licensed(file: Path, text: str, licence: str) -> str:
    lines = [line.rstrip() for line in licence.strip().splitlines()]
    if not lines or file.suffix == ".md":
        return text
    if file.suffix == ".txt":
        return "".join(f"# {line}".rstrip() + "\n" for line in lines) + "\n" + text
    comment = "".join(f" * {line}".rstrip() + "\n" for line in lines)
    return f"/*\n{comment} */\n\n{text}"


def _find(kernel: str) -> tuple[Operation, OperatorText]:
    if kernel not in catalogue():
        raise CommandError("NPK-CL01", f"there is no kernel {kernel!r}: take one of {', '.join(catalogue())}.")
    if kernel not in OPERATORS:
        raise CommandError(
            "NPK-EX10",
            f"{kernel} cannot be exported as an operator folder yet; {', '.join(OPERATORS)} can. "
            f"`npu-kernels show {kernel}` prints its Ascend C.",
        )
    return catalogue()[kernel], OPERATORS[kernel]


def _context(op: str, operation: Operation, text: OperatorText, variants: Sequence[Variant]) -> dict[str, Any]:
    first = variants[0]
    names = [p.name for p in first.inputs]
    return {
        "op": op,
        "op_type": camel(op),
        "summary": operation.summary,
        "text": text,
        "version": version("npu-kernels"),
        "socs": SOCS,
        "variants": variants,
        "classes": [split_source(v.lowered.generated, f"{camel(op)}TilingData") for v in variants],
        "inputs": first.inputs,
        "outputs": first.outputs,
        "shape_source": {"name": text.shape_source, "position": names.index(text.shape_source)},
        "ge_dtypes": list(dict.fromkeys(v.ge_dtype for v in variants)),
        "dtype_names": list(dict.fromkeys(v.dtype for v in variants)),
        "max_rank": max(len(p.shape) for v in variants for p in v.inputs),
        "tiling_fields": list(first.tiling),
        "modes": ", ".join(str(i) for i in range(len(variants))),
    }
