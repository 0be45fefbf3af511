"""Every refusal: its code, its line, and words that tell the way out."""

from __future__ import annotations

import re
import traceback
import types
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import npu_kernels.language as nl
from npu_kernels.binding import npu_kernel
from npu_kernels.errors import CODES, LanguageError

from .kernels import BF16, BOOL, F16, F32, I32, marked_line, tensor, trace

Body = Callable[..., Any]
CASES: list[tuple[str, str, tuple[str, ...], Body]] = []


def refused(code: str, *words: str) -> Callable[[Body], Body]:
    """A kernel body that must be refused with ``code`` at the line marked ``# here``, saying all ``words``."""

    def add(body: Body) -> Body:
        CASES.append((body.__name__, code, words, body))
        return body

    return add


@refused("NPK-LA01", "no <<", "power of two")
def shift_of_an_index(x, half, count, flag, box):
    for r in nl.range(3):
        r << 1  # here


@refused("NPK-LA01", "divmod()")
def divmod_of_an_index(x, half, count, flag, box):
    for r in nl.range(3):
        divmod(r, 2)  # here


@refused("NPK-LA01", "rounding=")
def round_of_a_tile(x, half, count, flag, box):
    round(nl.load(half))  # here


@refused("NPK-LA01", r"no \*\*", "nl.exp")
def power_of_a_number(x, half, count, flag, box):
    2 ** nl.load(half)  # here


@refused("NPK-LA03", "matmul", "takes no tile")
def product_with_an_array(x, half, count, flag, box):
    np.ones(4) @ nl.load(half)  # here


@refused("NPK-LA03", "exp takes no tile")
def numpy_function_of_a_tile(x, half, count, flag, box):
    np.exp(nl.load(half))  # here


@refused("NPK-LA01", "no .sum", "write nl.sum")
def numpy_reduction_of_a_tile(x, half, count, flag, box):
    np.sum(nl.load(half))  # here


@refused("NPK-LA01", "no .sum", "write nl.sum")
def method_of_a_tile(x, half, count, flag, box):
    nl.load(half).sum()  # here


@refused("NPK-LA01", "= value", "nl.where")
def assignment_into_a_tile(x, half, count, flag, box):
    t = nl.load(half)
    t[0] = 1.0  # here


@refused("NPK-LA01", "no .T")
def tensor_transposed(x, half, count, flag, box):
    nl.load(x.T)  # here


@refused("NPK-LA03", "/", "nl.load")
def number_by_a_tensor(x, half, count, flag, box):
    1 / x  # here


@refused("NPK-LA03", "a slice of x", "nl.load")
def arithmetic_on_a_slice(x, half, count, flag, box):
    x[0, :] + 1  # here


@refused("NPK-LA03", "x has no len()", ".shape")
def length_of_a_tensor(x, half, count, flag, box):
    len(x)  # here


@refused("NPK-LA03", "==")
def tensor_compared_with_a_number(x, half, count, flag, box):
    return x == 1  # here


@refused("NPK-LA01", "transposed")
def number_plus_a_transposed_tile(x, half, count, flag, box):
    1 + nl.load(x).T  # here


@refused("NPK-LA09", "does not fit into bfloat16")
def integer_beyond_every_float(x, half, count, flag, box):
    nl.load(half) + 10**400  # here


@refused("NPK-LA09", "64 bits")
def index_beyond_64_bits(x, half, count, flag, box):
    for r in nl.range(3):
        (r + 2**62) * 4  # here


@nl.function
def endless(t: nl.Tile, n: nl.Tile) -> nl.Tile:
    if n > 0:
        t = endless(t, n - 1.0)
    return t


KEPT: list[Any] = []


def keep(value: Any) -> None:
    """What no check of the kernel's own names can see."""
    KEPT.append(value)


def kept() -> Any:
    return KEPT[-1]


# Bodies take x float32 [12, 4], half bfloat16 [4], count int32 [4], flag bool [4], box float32 [2, 3, 4].


@refused("NPK-LA01", "while", "nl.range")
def while_over_a_traced_value(x, half, count, flag, box):
    t = nl.load(x[0, 0])
    while t > 0:  # here
        t = t - 1


@refused("NPK-LA01", "break", "nl.where")
def break_out_of_a_traced_loop(x, half, count, flag, box):
    for r in nl.range(3):
        if r > 1:
            break  # here


@refused("NPK-LA01", "continue", "under an if")
def continue_in_a_traced_loop(x, half, count, flag, box):
    for _ in nl.range(3):
        continue  # here


@refused("NPK-LA01", "return", "at the end")
def return_inside_a_traced_if(x, half, count, flag, box):
    out = nl.output((1,), F32)
    if nl.load(x[0, 0]) > 0:
        return out  # here
    return out


@refused("NPK-LA01", "break inside an if over a traced value")
def break_in_a_traced_if_of_a_python_loop(x, half, count, flag, box):
    for _ in range(3):
        if nl.load(x[0, 0]) > 0:
            break  # here


@refused("NPK-LA01", "try")
def try_in_a_traced_loop(x, half, count, flag, box):
    for r in nl.range(3):
        try:  # here
            nl.load(x[r, :])
        except ValueError:
            nl.load(x[0, :])


@refused("NPK-LA01", "a nested function")
def function_in_a_traced_loop(x, half, count, flag, box):
    for _ in nl.range(3):

        def helper(): ...  # here


@refused("NPK-LA01", "yield")
def generator(x, half, count, flag, box):
    yield x  # here


@refused("NPK-LA01", "no else")
def else_of_a_traced_loop(x, half, count, flag, box):
    for _ in nl.range(3):  # here
        pass
    else:
        pass


@refused("NPK-LA01", "one plain name")
def loop_into_an_attribute(x, half, count, flag, box):
    for x.name in nl.range(3):  # here
        pass


@refused("NPK-LA01", "directly inside another nl.parallel")
def parallel_inside_range(x, half, count, flag, box):
    for _ in nl.range(3):
        for _ in nl.parallel(3):  # here
            pass


@refused("NPK-LA01", "@nl.function")
def loop_in_a_plain_comprehension(x, half, count, flag, box):
    return [nl.load(x[r, :]) for r in nl.range(3)]  # here


@refused("NPK-LA01", "slice the tensor")
def slicing_a_tile(x, half, count, flag, box):
    return nl.load(x)[0:2, :]  # here


@refused("NPK-LA01", "all axes")
def slicing_a_slice(x, half, count, flag, box):
    return nl.load(box[0][1])  # here


@refused("NPK-LA01", "with a step")
def strided_slice(x, half, count, flag, box):
    return nl.load(x[::2, :])  # here


@refused("NPK-LA01", "nl.store")
def assignment_to_a_slice(x, half, count, flag, box):
    x[0, :] = 1.0  # here


@refused("NPK-LA01", "nl.dot")
def arithmetic_on_a_transposed_tile(x, half, count, flag, box):
    return nl.load(x).T + 1.0  # here


@refused("NPK-LA01", "write nl.dot")
def matmul_operator(x, half, count, flag, box):
    return nl.load(x) @ nl.load(x)  # here


@refused("NPK-LA02", "`t`", "has no value after it")
def name_of_a_loop_used_after_it(x, half, count, flag, box):
    for r in nl.range(3):
        t = nl.load(x[r, :])
    return t + 1.0  # here


@refused("NPK-LA02", "`r`")
def loop_variable_used_after_the_loop(x, half, count, flag, box):
    for r in nl.range(3):
        nl.load(x[r, :])
    return nl.load(x[r, :])  # here


@refused("NPK-LA02", "`t` has no value in the first iteration")
def name_read_before_it_is_assigned_in_a_loop(x, half, count, flag, box):
    for r in nl.range(3):
        if r > 0:
            nl.exp(t)  # here
        t = nl.load(x[r, :])  # noqa: F841


@refused("NPK-LA02", "was made inside the nl.range loop at line")
def value_smuggled_out_of_a_loop(x, half, count, flag, box):
    for r in nl.range(3):
        t = nl.load(x[r, :])
        keep(t)
    return kept() + 1.0  # here


@refused("NPK-LA02", "`t` was made inside the branch")
def value_smuggled_out_of_a_branch(x, half, count, flag, box):
    if nl.load(x[0, 0]) > 0:
        t = nl.load(x[0, :])
        keep(t)
    return nl.exp(kept())  # here


@refused("NPK-LA01", "the nl.range loop changes the Python value of `parts` in place", "nl.static_range")
def list_filled_in_a_loop(x, half, count, flag, box):
    parts = []
    for r in nl.range(3):  # here
        parts.append(nl.load(x[r, :]))


@refused("NPK-LA01", "the if over a traced value changes the Python value of `parts`")
def dictionary_written_in_a_branch(x, half, count, flag, box):
    parts = {"count": 0}
    if nl.load(x[0, 0]) > 0:  # here
        parts["count"] = 1


@refused("NPK-LA01", "Python value of `n`")
def number_counted_by_a_nested_function(x, half, count, flag, box):
    n = 0

    def step():
        nonlocal n
        n += 1

    for _ in nl.range(3):  # here
        step()


@refused("NPK-LA01", "Python value of `numbers`")
def iterator_advanced_in_a_loop(x, half, count, flag, box):
    numbers = iter([1, 2, 3])
    for r in nl.range(3):  # here
        nl.load(x[r, :]) + next(numbers)


@refused("NPK-LA01", "Python value of `state`")
def attribute_counted_in_a_loop(x, half, count, flag, box):
    state = types.SimpleNamespace(n=0)
    inner = [state]
    for _ in nl.range(3):  # here
        inner[0].n += 1


@refused("NPK-LA01", "Python value of `parts`")
def list_extended_by_an_augmented_assignment(x, half, count, flag, box):
    parts = [1]
    for _ in nl.range(3):  # here
        parts += [2]


@refused("NPK-LA02", "one side of the if")
def name_of_one_side_of_a_branch(x, half, count, flag, box):
    if nl.load(x[0, 0]) > 0:
        t = nl.load(x[0, :])
    return t * 2.0  # here


@refused("NPK-LA02", "iterations are independent")
def tile_carried_by_a_parallel_loop(x, half, count, flag, box):
    acc = nl.zeros(4)
    for r in nl.parallel(12):
        acc = acc + nl.load(x[r, :])  # here


@refused("NPK-LA03", "nl.minimum and nl.maximum")
def python_max_of_traced_scalars(x, half, count, flag, box):
    return max(nl.load(x[0, 0]), nl.load(x[1, 0]))  # here


@refused("NPK-LA03", "& | ~")
def python_and_of_traced_scalars(x, half, count, flag, box):
    t = nl.load(x[0, 0])
    return 1.0 if t > 0 and t < 1 else 2.0  # here


@refused("NPK-LA03", "nl.where")
def branch_on_a_tile(x, half, count, flag, box):
    if nl.load(flag):  # here
        pass


@refused("NPK-LA03", "!= 0")
def branch_on_a_number(x, half, count, flag, box):
    if nl.load(x[0, 0]):  # here
        pass


@refused("NPK-LA03", "nl.range")
def python_range_over_a_traced_value(x, half, count, flag, box):
    for _ in range(nl.load(count[0])):  # here
        pass


@refused("NPK-LA03", "known numbers")
def static_range_over_a_traced_value(x, half, count, flag, box):
    for _ in nl.static_range(nl.load(count[0])):  # here
        pass


@refused("NPK-LA03", "step")
def traced_step(x, half, count, flag, box):
    for _ in nl.range(0, 8, step=nl.load(count[0])):  # here
        pass


@refused("NPK-LA03", "nl.cast")
def python_float_of_a_traced_value(x, half, count, flag, box):
    return float(nl.load(x[0, 0]))  # here


@refused("NPK-LA03", "nl.load")
def arithmetic_on_a_tensor(x, half, count, flag, box):
    return x * 2.0  # here


@refused("NPK-LA03", "nl.load it first")
def tensor_as_an_operand(x, half, count, flag, box):
    return nl.exp(half)  # here


@refused("NPK-LA03", "as an argument")
def array_as_an_operand(x, half, count, flag, box):
    return nl.load(x) + np.ones(4, np.float32)  # here


@refused("NPK-LA03", "as an argument")
def jax_array_as_an_operand(x, half, count, flag, box):
    return nl.maximum(nl.load(x), jnp.ones(4))  # here


@refused("NPK-LA03", "no NumPy array")
def tile_as_an_array(x, half, count, flag, box):
    return np.asarray(nl.load(x))  # here


@refused("NPK-LA03", "iterated")
def iterating_over_a_tile(x, half, count, flag, box):
    return list(nl.load(x))  # here


@refused("NPK-LA03", "gathers")
def tile_as_an_index(x, half, count, flag, box):
    return nl.load(x[nl.load(count), :])  # here


@refused("NPK-LA03", "integer")
def float_as_an_index(x, half, count, flag, box):
    return nl.load(x[nl.load(x[0, 0]), :])  # here


@refused("NPK-LA03", "a str")
def string_as_an_operand(x, half, count, flag, box):
    return nl.load(x) + "1"  # here


@refused("NPK-LA04", r"\[12, 4\] and \[12\]", r"t\[:, None\]")
def shapes_that_do_not_broadcast(x, half, count, flag, box):
    return nl.load(x) * nl.load(x[0:12, 0])  # here


@refused("NPK-LA04", r"\[2, 3, 4\]")
def load_of_rank_three(x, half, count, flag, box):
    return nl.load(box)  # here


@refused("NPK-LA04", "rank 1 or 2")
def tile_of_rank_three(x, half, count, flag, box):
    return nl.load(x)[:, None, :]  # here


@refused("NPK-LA04", "contracts 4", "12 rows")
def dot_of_wrong_shapes(x, half, count, flag, box):
    return nl.dot(nl.load(x), nl.load(x))  # here


@refused("NPK-LA04", "rank 2", r"t\[None, :\]")
def dot_of_a_vector(x, half, count, flag, box):
    return nl.dot(nl.load(x), nl.load(x[0, :]))  # here


@refused("NPK-LA04", r"nl.zeros\(\(12, 12\)\)")
def dot_with_a_wrong_accumulator(x, half, count, flag, box):
    t = nl.load(x)
    return nl.dot(t, t.T, nl.zeros((4, 4)))  # here


@refused("NPK-LA04", "does not fit the slice")
def store_of_a_wrong_shape(x, half, count, flag, box):
    out = nl.output((3, 4), F32)
    nl.store(out[0, :], nl.load(x))  # here
    return out


@refused("NPK-LA04", "no empty axis")
def tile_without_elements(x, half, count, flag, box):
    return nl.zeros((0, 4))  # here


@refused("NPK-LA05", "bfloat16 and float32", "astype")
def mixed_dtypes(x, half, count, flag, box):
    return nl.load(x) + nl.load(half)  # here


@refused("NPK-LA05", "astype")
def dot_of_mixed_dtypes(x, half, count, flag, box):
    return nl.dot(nl.load(x).astype(F16), nl.load(x).astype(BF16).T)  # here


@refused("NPK-LA05", "cast to nl.float32")
def dot_of_integers(x, half, count, flag, box):
    t = nl.load(x).astype(I32)
    return nl.dot(t, t.T)  # here


@refused("NPK-LA05", r"out.dtype")
def store_of_another_dtype(x, half, count, flag, box):
    out = nl.output((4,), F32)
    nl.store(out, nl.load(half))  # here
    return out


@refused("NPK-LA05", "float 0.5", "astype")
def float_with_an_integer_tile(x, half, count, flag, box):
    return nl.load(count) * 0.5  # here


@refused("NPK-LA05", "nl.float32 first")
def division_of_integers(x, half, count, flag, box):
    return nl.load(count) / 2  # here


@refused("NPK-LA05", "index and int32 scalars")
def floor_division_of_tiles(x, half, count, flag, box):
    return nl.load(count) // 2  # here


@refused("NPK-LA05", "cast first")
def exp_of_integers(x, half, count, flag, box):
    return nl.exp(nl.load(count))  # here


@refused("NPK-LA05", "cast it first")
def sum_of_integers(x, half, count, flag, box):
    return nl.sum(nl.load(count))  # here


@refused("NPK-LA05", "cast it first")
def sum_of_a_mask(x, half, count, flag, box):
    return nl.sum(nl.load(flag))  # here


@refused("NPK-LA05", "cast it first")
def sum_of_masks(x, half, count, flag, box):
    return nl.load(flag) + nl.load(flag)  # here


@refused("NPK-LA05", "compare first")
def and_of_floats(x, half, count, flag, box):
    return nl.load(x) & nl.load(x)  # here


@refused("NPK-LA05", "compare first")
def not_of_a_float(x, half, count, flag, box):
    return ~nl.load(x)  # here


@refused("NPK-LA05", "no order")
def order_of_masks(x, half, count, flag, box):
    return nl.load(flag) < nl.load(flag)  # here


@refused("NPK-LA05", "not bool", "compare")
def where_with_a_float_condition(x, half, count, flag, box):
    return nl.where(nl.load(x), 1.0, 0.0)  # here


@refused("NPK-LA05", "number 1", "bool")
def number_with_a_mask(x, half, count, flag, box):
    return nl.load(flag) & 1  # here


@refused("NPK-LA05", "int64")
def dtype_the_language_lacks(x, half, count, flag, box):
    return nl.load(x).astype(np.int64)  # here


@refused("NPK-LA05", "an index")
def sqrt_of_an_index(x, half, count, flag, box):
    for r in nl.range(3):
        nl.sqrt(r)  # here


@refused("NPK-LA05", "an index", "0.5")
def float_with_an_index(x, half, count, flag, box):
    for r in nl.range(3):
        r * 0.5  # here


@refused("NPK-LA06", "12 elements", "a slice of 13 from 0")
def static_slice_outside(x, half, count, flag, box):
    return nl.load(x[0:13, :])  # here


@refused("NPK-LA06", "index 12")
def static_index_outside(x, half, count, flag, box):
    return nl.load(x[12, :])  # here


@refused("NPK-LA06", "-1")
def negative_index_outside(x, half, count, flag, box):
    return nl.load(x[-13, :])  # here


@refused("NPK-LA06", "5", "0 to 10", r"its own step \(5\)|nl.clip")
def slice_longer_than_the_step(x, half, count, flag, box):
    for r in nl.range(12, step=5):
        nl.load(x[r : r + 6, :])  # here


@refused("NPK-LA06", "1 to 9")
def shifted_ragged_slice(x, half, count, flag, box):
    for r in nl.range(12, step=8):
        nl.load(x[r + 1 : r + 9, :])  # here


@refused("NPK-LA06", "ends at 12")
def loop_beyond_the_tensor(x, half, count, flag, box):
    for r in nl.range(20, step=8):
        nl.load(x[r : r + 8, :])  # here


@refused("NPK-LA06", "-8")
def slice_before_the_tensor(x, half, count, flag, box):
    for r in nl.range(-8, 12, step=8):
        nl.load(x[r : r + 8, :])  # here


@refused("NPK-LA06", "nl.clip")
def loaded_index(x, half, count, flag, box):
    return nl.load(x[nl.load(count[0]), :])  # here


@refused("NPK-LA06", "known number", "static n")
def slice_of_unknown_length(x, half, count, flag, box):
    for r in nl.range(12):
        nl.load(x[0:r, :])  # here


@refused("NPK-LA06", "empty")
def empty_slice(x, half, count, flag, box):
    return nl.load(x[3:3, :])  # here


@refused("NPK-LA06", "2 axes", "3 are indexed")
def too_many_indices(x, half, count, flag, box):
    return nl.load(x[0, 0, 0])  # here


@refused("NPK-LA07", r"float32 \[4\]", r"float32 \[1, 4\]")
def carried_shape_changes(x, half, count, flag, box):
    acc = nl.zeros(4)
    for r in nl.range(12):
        acc = acc + nl.load(x[r : r + 1, :])  # here
    return acc


@refused("NPK-LA07", "`acc`", "bfloat16")
def carried_dtype_changes(x, half, count, flag, box):
    acc = nl.zeros(4)
    for _ in nl.range(12):
        acc = acc.astype(BF16)  # here
    return acc


@refused("NPK-LA07", "the number 0.0", "nl.full")
def number_becomes_a_tile(x, half, count, flag, box):
    acc = 0.0
    for r in nl.range(12):
        acc = acc + nl.load(x[r, :])  # here
    return acc


@refused("NPK-LA07", "ragged")
def carried_extent_of_the_loop_itself(x, half, count, flag, box):
    acc = nl.zeros((8, 4))
    for r in nl.range(12, step=8):
        acc = acc + nl.load(x[r : r + 8, :])  # here
    return acc


@refused("NPK-LA07", "one side of the if", "bfloat16")
def branches_differ(x, half, count, flag, box):
    t = nl.load(half)
    if nl.load(x[0, 0]) > 0:
        t = t.astype(F32)  # here
    return t


@refused("NPK-LA07", "independent")
def number_carried_by_a_parallel_loop(x, half, count, flag, box):
    n = 0
    for _ in nl.parallel(12):
        n = n + 1  # here


@refused("NPK-LA08", "never stored")
def output_never_stored(x, half, count, flag, box):  # here
    return nl.output((4,), F32)


@refused("NPK-LA08", "not returned")
def output_not_returned(x, half, count, flag, box):  # here
    out, _other = nl.output((4,), F32), nl.output((4,), F32)
    nl.store(out, 1.0)
    return out


@refused("NPK-LA08", "returns None")
def nothing_returned(x, half, count, flag, box):  # here
    pass


@refused("NPK-LA08", "a Tile")
def tile_returned(x, half, count, flag, box):  # here
    return nl.load(x)


@refused("NPK-LA08", "twice")
def output_returned_twice(x, half, count, flag, box):  # here
    out = nl.output((4,), F32)
    nl.store(out, 1.0)
    return out, out


@refused("NPK-LA08", "cannot be written")
def store_into_an_argument(x, half, count, flag, box):
    nl.store(x, 1.0)  # here


@refused("NPK-LA08", "read back")
def load_from_an_output(x, half, count, flag, box):
    out = nl.output((4,), F32)
    nl.store(out, 1.0)
    nl.load(out)  # here


@refused("NPK-LA08", "at the top")
def output_inside_a_loop(x, half, count, flag, box):
    for _ in nl.range(3):
        nl.output((4,), F32)  # here


@refused("NPK-LA09", "from -2 to 1")
def axis_out_of_range(x, half, count, flag, box):
    return nl.sum(nl.load(x), axis=2)  # here


@refused("NPK-LA09", "rint, floor")
def unknown_rounding(x, half, count, flag, box):
    return nl.load(x).astype(F16, rounding="up")  # here


@refused("NPK-LA09", "nothing to round")
def rounding_without_a_cast(x, half, count, flag, box):
    return nl.load(x).astype(F32, rounding="floor")  # here


@refused("NPK-LA09", "positive")
def step_of_zero(x, half, count, flag, box):
    for _ in nl.range(0, 8, step=0):  # here
        pass


@refused("NPK-LA09", "scalar")
def reduction_of_a_scalar(x, half, count, flag, box):
    return nl.max(nl.load(x[0, 0]))  # here


@refused("NPK-LA09", "squared")
def power_of_a_tile(x, half, count, flag, box):
    return nl.load(x) ** 3  # here


@refused("NPK-LA09", "32 bits")
def number_too_large_for_int32(x, half, count, flag, box):
    return nl.load(count) + 2**31  # here


@refused("NPK-LA09", "nl.maximum")
def division_by_a_possible_zero(x, half, count, flag, box):
    return nl.load(count[0]) // nl.load(count[1])  # here


@refused("NPK-LA09", "static n")
def arange_of_unknown_length(x, half, count, flag, box):
    return nl.arange(nl.load(count[0]))  # here


@refused("NPK-LA09", "traced value")
def tile_of_a_traced_shape(x, half, count, flag, box):
    return nl.zeros((nl.load(count[0]), 4))  # here


INPUTS = (tensor((12, 4)), tensor((4,), BF16), tensor((4,), I32), tensor((4,), BOOL), tensor((2, 3, 4)))


@pytest.mark.parametrize("name, code, words, body", CASES, ids=[case[0] for case in CASES])
def test_refusals_come_with_code_line_and_way_out(name: str, code: str, words: tuple[str, ...], body: Body) -> None:
    with pytest.raises(LanguageError) as caught:
        trace(body, *INPUTS)
    error = caught.value
    assert (error.code, error.location) == (code, marked_line(body)), str(error)
    for word in words:
        assert re.search(word, error.message), error.message


def test_every_language_code_is_tested() -> None:
    assert {case[1] for case in CASES} == {code for code in CODES if code.startswith("NPK-LA")}


def test_the_excerpt_marks_the_expression() -> None:
    def kernel(x: nl.Tensor) -> nl.Tensor:
        t = nl.load(x)
        return 1.0 + nl.sum(t.astype(nl.int32), axis=0)

    with pytest.raises(LanguageError) as caught:
        trace(kernel, tensor((4, 4)))
    source, carets = str(caught.value).splitlines()[-2:]
    start, end = carets.index("^"), carets.rindex("^") + 1
    assert source[start:end] == "nl.sum(t.astype(nl.int32), axis=0)"


def test_the_traceback_shows_the_authors_lines_only() -> None:
    @nl.function
    def helper(t: nl.Tile) -> nl.Tile:
        return nl.exp(t)

    def kernel(x: nl.Tensor) -> nl.Tensor:
        return helper(nl.load(x).astype(I32))

    with pytest.raises(LanguageError) as caught:
        trace(kernel, tensor((4,)))
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[-2:] == ["kernel", "helper"]
    assert caught.value.__cause__ is None and caught.value.__suppress_context__


def test_a_helper_without_the_decorator_says_so() -> None:
    def helper(t: nl.Tile) -> nl.Tile:
        if nl.max(t) > 0:
            return t
        return -t

    def kernel(x: nl.Tensor) -> nl.Tensor:
        return helper(nl.load(x))

    with pytest.raises(LanguageError, match=r"@nl\.function") as caught:
        trace(kernel, tensor((4,)))
    assert caught.value.code == "NPK-LA03"
    assert caught.value.location == f"{__file__}:{helper.__code__.co_firstlineno + 1}"


def test_a_recursion_over_a_traced_value_is_refused() -> None:
    def kernel(x: nl.Tensor) -> nl.Tensor:
        return endless(nl.load(x[0, :]), nl.load(x[0, 0]))

    with pytest.raises(LanguageError, match=r"recursion of endless .* nl.range") as caught:
        trace(kernel, tensor((2, 4)))
    assert caught.value.code == "NPK-LA01"


def test_the_language_outside_a_kernel_says_so() -> None:
    with pytest.raises(LanguageError, match="@npu_kernel") as caught:
        nl.zeros((4,))
    assert caught.value.code == "NPK-LA01"


def test_a_value_of_another_trace_is_refused() -> None:
    kept: list[Any] = []

    def keep(x: nl.Tensor) -> nl.Tensor:
        out = nl.output((4,), F32)
        kept.append(nl.load(x))
        nl.store(out, kept[0])
        return out

    def use(x: nl.Tensor) -> nl.Tensor:
        return nl.exp(kept[0])

    trace(keep, tensor((4,)))
    with pytest.raises(LanguageError, match="another kernel") as caught:
        trace(use, tensor((4,)))
    assert caught.value.code == "NPK-LA02"


def test_a_function_without_source_is_refused() -> None:
    scope: dict[str, Any] = {}
    exec("def kernel(x):\n    return x\n", scope)
    with pytest.raises(LanguageError, match="not at hand") as caught:
        trace(scope["kernel"], tensor((4,)))
    assert caught.value.code == "NPK-LA01"


def test_a_lambda_is_refused() -> None:
    with pytest.raises(LanguageError, match="plain function") as caught:
        trace(lambda x: x, tensor((4,)))
    assert caught.value.code == "NPK-LA01"


def test_an_error_that_the_body_swallows_is_raised_all_the_same() -> None:
    def kernel(x: nl.Tensor) -> nl.Tensor:
        out = nl.output((4,), F32)
        try:
            for r in nl.range(3):
                nl.load(x[r, 9])  # here
        except LanguageError:
            pass
        nl.store(out, 0.0)
        return out

    with pytest.raises(LanguageError) as caught:
        trace(kernel, tensor((4, 4)))
    assert (caught.value.code, caught.value.location) == ("NPK-LA06", marked_line(kernel))


@pytest.mark.parametrize("interpret", [False, True])
def test_errors_of_python_pass_through_without_our_frames(interpret: bool) -> None:
    @npu_kernel
    def kernel(x: nl.Tensor) -> nl.Tensor:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as caught:
        kernel(np.zeros(4, np.float32), interpret=interpret)
    assert [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)[1:]] == ["kernel"]


def test_the_same_refusals_hold_in_eager_runs() -> None:
    def kernel(x: nl.Tensor) -> nl.Tensor:
        out = nl.output((4,), F32)
        for r in nl.range(6, step=4):
            nl.store(out[r + 1 : r + 5], nl.load(x[r : r + 4]))  # here
        return out

    with pytest.raises(LanguageError, match="1:5") as caught:
        nl.interpret(kernel, {"x": np.zeros(8, np.float32)}, {})
    assert (caught.value.code, caught.value.location) == ("NPK-LA06", marked_line(kernel))
