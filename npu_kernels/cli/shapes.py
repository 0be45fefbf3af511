"""The notation of shapes on the command line: ``x=4096x1024:float32``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import jax
import ml_dtypes
import numpy as np

from npu_kernels.errors import CommandError

_DTYPES: Mapping[str, np.dtype[np.generic]] = {
    name: np.dtype(getattr(ml_dtypes, name, None) or name)
    for name in ("float32", "float16", "bfloat16", "int32", "bool")
}
_SHAPE = re.compile(r"(?:(?P<name>[A-Za-z_]\w*)=)?(?P<sizes>\d+(?:x\d+)*)?(?::(?P<dtype>\w+))?")


def parse_shape(text: str) -> tuple[str | None, jax.ShapeDtypeStruct]:
    """The tensor's name, if given, and its shape and dtype; no sizes is a scalar, no dtype float32.

    Raises:
        CommandError: NPK-CL01, when the text does not fit the notation.
    """
    match = _SHAPE.fullmatch(text)
    dtype = _DTYPES.get((match["dtype"] or "float32") if match else "")
    if match is None or dtype is None or not text:
        raise CommandError(
            "NPK-CL01",
            f"--shape {text!r} cannot be read: write NAME=SIZExSIZE:DTYPE, for example x=4096x1024:float32, "
            f"with one of the dtypes {', '.join(_DTYPES)}.",
        )
    sizes = tuple(int(size) for size in match["sizes"].split("x")) if match["sizes"] else ()
    return match["name"], jax.ShapeDtypeStruct(sizes, dtype)


def arrange(
    texts: Sequence[str], parameters: Sequence[str], optional: Sequence[str] = ()
) -> dict[str, jax.ShapeDtypeStruct]:
    """The shapes by parameter, in the parameters' order; unnamed ones fill the parameters from the left.

    Args:
        texts: one shape each.
        parameters: names of the tensors by position.
        optional: names that may be left out, of these or of others that can only be given by name.

    Raises:
        CommandError: NPK-CL01, when a parameter has no shape, two, or is unknown.
    """
    given: dict[str, jax.ShapeDtypeStruct] = {}
    known = [*parameters, *(name for name in optional if name not in parameters)]
    for text in texts:
        name, shape = parse_shape(text)
        if name is None:
            name = next((parameter for parameter in parameters if parameter not in given), None)
        if name is None or name not in known or name in given:
            raise CommandError(
                "NPK-CL01", f"--shape {text!r} fits no tensor: the kernel takes one each of {', '.join(known)}."
            )
        given[name] = shape
    missing = [parameter for parameter in parameters if parameter not in given and parameter not in optional]
    if missing:
        raise CommandError("NPK-CL01", f"no shape for {', '.join(missing)}: add --shape {missing[0]}=SIZExSIZE:DTYPE.")
    return {name: given[name] for name in known if name in given}
