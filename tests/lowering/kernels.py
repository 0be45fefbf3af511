"""Tile kernels that between them use every operation of the tile IR."""

from __future__ import annotations

from jaxtyping import Bool, Float, Int32

import npu_kernels.language as nl
from npu_kernels.binding import npu_kernel

ELEMENTWISE = 34
ROUNDINGS = ("rint", "floor", "ceil", "trunc", "round")


@npu_kernel
def elementwise(
    x: Float[nl.Tensor, "r c"],
    y: Float[nl.Tensor, "r c"],
    row: Float[nl.Tensor, "c"],
    column: Float[nl.Tensor, "r one"],
    *,
    step: int,
) -> Float[nl.Tensor, "k r c"]:
    """Float operations on whole tiles, rows, columns and scalars, in the order of the references."""
    rows, cols = x.shape
    out = nl.output((ELEMENTWISE, rows, cols), x.dtype)
    w = nl.load(row)
    for r in nl.parallel(rows, step=step):
        a, b, c = (nl.load(t[r : r + step, :]) for t in (x, y, column))
        results = [
            a + b, a - b, a * b, a / b, nl.maximum(a, b), nl.minimum(a, b),
            a + w, w - a, a * c, c / a, c + w, nl.maximum(c, w),
            a + 2.0, 2.0 - a, a - 0.5, a * 3.0, a / 3.0, 3.0 / a, nl.maximum(a, 0.25), nl.minimum(0.25, a),
            -a, nl.exp(a), nl.log(a), nl.sqrt(a), nl.rsqrt(a), nl.reciprocal(a), nl.tanh(a), nl.abs(a),
            nl.where(a > b, a, b), nl.where(a >= w, 1.0, c), nl.where(c < w, a, -1.0), nl.clip(a, -0.5, 0.5),
            nl.where((a == b) | ~(a != w) & (c <= 0.125), a, 0.0), nl.where(a <= 0.25, 2.0, a),
        ]  # fmt: skip
        for i in nl.static_range(ELEMENTWISE):
            nl.store(out[i, r : r + step, :], results[i])
    return out


@npu_kernel
def reductions(
    x: Float[nl.Tensor, "r c"], *, step: int, width: int
) -> tuple[Float[nl.Tensor, "4 r"], Float[nl.Tensor, "3 c"], Float[nl.Tensor, "4 r"]]:
    """Along rows at once, along columns block by block, and along rows block by block down to scalars."""
    rows, cols = x.shape
    along_rows = nl.output((4, rows), x.dtype)
    along_columns = nl.output((3, cols), x.dtype)
    to_scalars = nl.output((4, rows), nl.float32)
    for r in nl.parallel(rows, step=step):
        a = nl.load(x[r : r + step, :])
        nl.store(along_rows[0, r : r + step], nl.sum(a, axis=1))
        nl.store(along_rows[1, r : r + step], nl.max(a, axis=1))
        nl.store(along_rows[2, r : r + step], nl.min(a, axis=1))
        nl.store(along_rows[3, r : r + step], nl.mean(a, axis=1))
    for c in nl.parallel(cols, step=width):
        total = nl.zeros((width,))
        top = nl.full((width,), float("-inf"), x.dtype)
        low = nl.full((width,), float("inf"), x.dtype)
        for r in nl.range(0, rows, step=step):
            a = nl.load(x[r : r + step, c : c + width])
            total = total + nl.sum(a.astype(nl.float32), axis=0)
            top = nl.maximum(top, nl.max(a, axis=0))
            low = nl.minimum(low, nl.min(a, axis=0))
        nl.store(along_columns[0, c : c + width], total.astype(x.dtype))
        nl.store(along_columns[1, c : c + width], top)
        nl.store(along_columns[2, c : c + width], low)
    for r in nl.parallel(rows):
        s, m, n, mean = 0.0, -1e30, 1e30, 0.0
        for c in nl.range(0, cols, step=width):
            v = nl.load(x[r, c : c + width]).astype(nl.float32)
            s = s + nl.sum(v, axis=0)
            m = nl.maximum(m, nl.max(v, axis=0))
            n = nl.minimum(n, nl.min(v, axis=0))
            mean = mean + nl.mean(v, axis=0)
        nl.store(to_scalars[0, r], s)
        nl.store(to_scalars[1, r], m)
        nl.store(to_scalars[2, r], n)
        nl.store(to_scalars[3, r], mean)
    return along_rows, along_columns, to_scalars


@npu_kernel
def integers(
    x: Int32[nl.Tensor, "r c"],
    y: Int32[nl.Tensor, "r c"],
    mask: Bool[nl.Tensor, "r c"],
    mask_row: Bool[nl.Tensor, "c"],
    *,
    step: int,
) -> tuple[Int32[nl.Tensor, "14 r c"], Bool[nl.Tensor, "13 r c"]]:
    """Integer arithmetic, comparisons of integers and logic on masks."""
    rows, cols = x.shape
    numbers = nl.output((14, rows, cols), nl.int32)
    masks = nl.output((13, rows, cols), nl.bool_)
    mr = nl.load(mask_row)
    for r in nl.parallel(rows, step=step):
        a, b, k = (nl.load(t[r : r + step, :]) for t in (x, y, mask))
        i, j = nl.arange(r, r + step)[:, None], nl.arange(cols)[None, :]
        made = [
            a + b, a - b, a * b, nl.maximum(a, b), nl.minimum(a, b), -a, nl.abs(a), nl.where(k, a, b),
            nl.where(a < b, a, 7), k.astype(nl.int32), i + j, nl.where(i >= j, a, b), nl.maximum(i, 2) * j, 3 - a,
        ]  # fmt: skip
        said = [
            a < b, a <= b, a > b, a >= b, a == b, a != b, k & (a < 5), k | mr, ~k, k ^ mr, a.astype(nl.bool_),
            nl.where(k, a < b, mr), i < j,
        ]  # fmt: skip
        for n in nl.static_range(14):
            nl.store(numbers[n, r : r + step, :], made[n])
        for n in nl.static_range(13):
            nl.store(masks[n, r : r + step, :], said[n])
    return numbers, masks


@npu_kernel
def casts(
    x: Float[nl.Tensor, "r c"],
) -> tuple[Float[nl.Tensor, "5 r c"], Float[nl.Tensor, "5 r c"], Int32[nl.Tensor, "5 r c"]]:
    """From float32 to every other number, by every rounding."""
    rows, cols = x.shape
    outs = [nl.output((5, rows, cols), d) for d in (nl.float16, nl.bfloat16, nl.int32)]
    for r in nl.parallel(rows, step=4):
        a = nl.load(x[r : r + 4, :])
        for out in outs:
            for i, rounding in enumerate(ROUNDINGS):
                nl.store(out[i, r : r + 4, :], a.astype(out.dtype, rounding=rounding))
    return outs[0], outs[1], outs[2]


@npu_kernel
def products(
    a: Float[nl.Tensor, "m k"],
    b: Float[nl.Tensor, "k n"],
    at: Float[nl.Tensor, "k m"],
    bt: Float[nl.Tensor, "n k"],
    *,
    step: int,
    depth: int,
) -> Float[nl.Tensor, "6 m n"]:
    """Loaded and computed operands, both transposed or not, summed over blocks of the contracted axis."""
    m, k = a.shape
    n = b.shape[1]
    out = nl.output((6, m, n), nl.float32)
    for r in nl.parallel(m, step=step):
        p0 = nl.zeros((step, n))
        p1 = nl.zeros((step, n))
        p2 = nl.zeros((step, n))
        p3 = nl.zeros((step, n))
        p4 = nl.zeros((step, n))
        for s in nl.range(0, k, step=depth):
            left, right = nl.load(a[r : r + step, s : s + depth]), nl.load(b[s : s + depth, :])
            left_t, right_t = nl.load(at[s : s + depth, r : r + step]), nl.load(bt[:, s : s + depth])
            p0 = nl.dot(left, right, p0)
            p1 = p1 + nl.dot(left_t, right, transpose_a=True)
            p2 = nl.dot(left, right_t, p2, transpose_b=True)
            p3 = nl.dot(left_t, right_t, p3, transpose_a=True, transpose_b=True)
            doubled = (left.astype(nl.float32) * 2.0).astype(a.dtype)
            raised = (right.astype(nl.float32) + 1.0).astype(b.dtype)
            p4 = nl.dot(doubled, raised, p4)
        nl.store(out[0, r : r + step, :], p0)
        nl.store(out[1, r : r + step, :], p1)
        nl.store(out[2, r : r + step, :], p2)
        nl.store(out[3, r : r + step, :], p3)
        nl.store(out[4, r : r + step, :], p4)
        nl.store(out[5, r : r + step, :], p0 - nl.sum(p0, axis=1, keepdims=True))
    return out


@npu_kernel
def product_mixing_rows(
    a: Float[nl.Tensor, "m k"], b: Float[nl.Tensor, "k n"]
) -> tuple[Float[nl.Tensor, "m n"], Float[nl.Tensor, "n"]]:
    """A product whose rows are added up: the two vector cores cannot share them out."""
    product = nl.output((a.shape[0], b.shape[1]), nl.float32)
    sums = nl.output((b.shape[1],), nl.float32)
    p = nl.dot(nl.load(a), nl.load(b))
    nl.store(product, p)
    nl.store(sums, nl.sum(p, axis=0))
    return product, sums


@npu_kernel
def control(
    x: Float[nl.Tensor, "r c"], index: Int32[nl.Tensor, "r"]
) -> tuple[Float[nl.Tensor, "r c"], Float[nl.Tensor, "r c"], Float[nl.Tensor, "4 r"]]:
    """Loops that swap what they carry, branches on loaded scalars, bounds known at run time only."""
    rows, cols = x.shape
    first, second = nl.output((rows, cols), x.dtype), nl.output((rows, cols), x.dtype)
    scalars = nl.output((4, rows), nl.float32)
    for r in nl.parallel(rows):
        a = nl.load(x[r, :])
        b = nl.full((cols,), 1.0)
        n = nl.load(index[r])
        fib, previous = 1, 0
        for _ in nl.range(5):
            a, b = b, a + b
            fib, previous = fib + previous, fib
        if n > 2:
            a = a * 2.0
            k = n // 2
        elif n == 0:
            k = n - 7
        else:
            b = b + a
            k = n % 3
        for j in nl.range(n, 6, step=2):
            if j > 3:
                b = b + 1.0
            a = a + j
        s = nl.sum(a, axis=0)
        m = nl.maximum(s, 0.5)
        if s > 1.0:
            m = m + nl.sqrt(m)
        nl.store(first[r, :], a)
        nl.store(second[r, :], b)
        nl.store(scalars[0, r], s)
        nl.store(scalars[1, r], m)
        nl.store(scalars[2, r], m * 0.0 + fib)
        nl.store(scalars[3, r], m * 0.0 + k.astype(nl.float32))
    return first, second, scalars


@npu_kernel
def strided(x: Float[nl.Tensor, "r c d"]) -> tuple[Float[nl.Tensor, "r c d"], Float[nl.Tensor, "c r d"]]:
    """Columns that are not contiguous in memory, in and out, and a swap of two axes."""
    rows, cols, depth = x.shape
    raised = nl.output((rows, cols, depth), x.dtype)
    swapped = nl.output((cols, rows, depth), x.dtype)
    for c in nl.parallel(cols):
        for d in nl.parallel(depth):
            nl.store(raised[:, c, d], nl.load(x[:, c, d]) + 1.0)
        nl.store(swapped[c, :, :], nl.load(x[:, c, :]))
    return raised, swapped


@npu_kernel
def scalars(
    x: Float[nl.Tensor, "n"], factor: Float[nl.Tensor, ""], half: Float[nl.Tensor, "1"], flags: Bool[nl.Tensor, "n"]
) -> tuple[Float[nl.Tensor, "12 n"], Int32[nl.Tensor, "5 n"], Bool[nl.Tensor, "n"], Float[nl.Tensor, ""]]:
    """Scalars of every dtype in and out, and the functions the scalar unit does not have."""
    n = x.shape[0]
    floats, whole = nl.output((12, n), nl.float32), nl.output((5, n), nl.int32)
    inverted, doubled = nl.output((n,), nl.bool_), nl.output((), nl.float32)
    g, h = nl.load(factor), nl.load(half[0]).astype(nl.float32)
    nl.store(doubled, g * 2.0)
    for i in nl.parallel(n):
        v = nl.load(x[i])
        made = [
            nl.exp(v), nl.log(v), nl.sqrt(v), nl.rsqrt(v), nl.tanh(v), nl.reciprocal(v), nl.abs(v), -v, v + g,
            nl.maximum(v, g), v * h, nl.where(v > g, v, g),
        ]  # fmt: skip
        for j in nl.static_range(12):
            nl.store(floats[j, i], made[j])
        for j in nl.static_range(5):
            nl.store(whole[j, i], v.astype(nl.int32, rounding=ROUNDINGS[j]))
        nl.store(inverted[i], ~nl.load(flags[i]))
    return floats, whole, inverted, doubled
