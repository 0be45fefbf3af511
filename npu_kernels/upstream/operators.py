"""What the operator folder says about an operation beyond its generated code: formula, parameters, test, example."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class OperatorText:
    """The words and templates of one operation.

    Attributes:
        formula: LaTeX, for the README.
        notes: what the symbols mean.
        parameters: meaning of each parameter of the kernel by name, results included.
        result: the kernel's result, and its name in the operator's prototype.
        shape_source: the input whose shape and element type the result has.
        unit_test: template of the kernel's unit test.
        relative_error: largest relative error its unit test allows, by element type.
    """

    formula: str
    notes: str
    parameters: Mapping[str, str]
    result: str
    shape_source: str
    unit_test: str
    relative_error: Mapping[str, float]


OPERATORS: Mapping[str, OperatorText] = MappingProxyType(
    {
        "rms_norm": OperatorText(
            formula=r"y_{r,i} = \frac{x_{r,i}}{\sqrt{\frac{1}{D}\sum_{j=1}^{D} x_{r,j}^2 + \varepsilon}} \cdot w_i",
            notes="$D$ is the length of a row. The sum, the root and the products are float32; the result is rounded "
            "once.",
            parameters={
                "x": "the rows to normalise, `[rows, D]`",
                "weight": "the factor of each column, `[D]`",
                "y": "the normalised rows, `[rows, D]`",
            },
            result="y",
            shape_source="x",
            unit_test="tests/op_kernel/test_rms_norm.cpp.j2",
            # one rounding to the element type, and a float32 sum whose error grows like the root of its length
            relative_error={"float32": 1e-5, "float16": 2.0**-11 + 1e-5, "bfloat16": 2.0**-8 + 1e-5},
        )
    }
)
