"""Reductions, fills and rearrangements give their documented values."""

from __future__ import annotations

import numpy as np
import pytest

from .harness import Case, Program, bfloat16

rng = np.random.default_rng(22)
CASES: list[Case] = []
x = rng.normal(0, 1, 1000).astype(np.float32)
h = rng.normal(0, 1, 1000).astype(np.float16)
old = np.full(64, 99, np.float32)


def case(name: str, statements: str, inputs: list[np.ndarray], expected: np.ndarray, **options: object) -> None:
    CASES.append(Case(name, statements, inputs, expected, **options))  # type: ignore[arg-type]


def tree(values: np.ndarray) -> np.ndarray:
    """Sum along the last axis as a binary tree, each level in the type itself: halves, then neighbours in a block."""
    block = 32 // values.dtype.itemsize
    with np.errstate(over="ignore", invalid="ignore"):
        while (count := values.shape[-1]) > 1:
            pairs = (
                (slice(0, None, 2), slice(1, None, 2))
                if count <= block
                else (slice(count // 2), slice(count // 2, None))
            )
            left, right = (values[..., half].astype(np.float32) for half in pairs)
            values = (left + right).astype(values.dtype)
    return values[..., 0]


def with_index(values: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Pairs of a value and a position whose bits are kept in the value's type."""
    bits = index.astype(np.uint32 if values.dtype.itemsize == 4 else np.uint16).view(values.dtype)
    return np.stack([values, bits], axis=-1).reshape(-1)


def _position(rows: np.ndarray) -> np.ndarray:
    """Position of the least element, counting repeats of 64."""
    repeat, element = np.unravel_index(rows.argmin(), rows.shape)
    return np.array([repeat * 64 + element])


# Sum of 1000 elements: 15 repeats of 64 and one of 40, whose sums are added one after the other.
blocks = np.concatenate([x, np.full(24, -0.0, np.float32)]).reshape(16, 64)
case("ReduceSum", "ReduceSum(d, a, t, n);", [x], np.add.accumulate(tree(blocks))[-1:])
hblocks = np.concatenate([h, np.full(24, -0.0, np.float16)]).reshape(8, 128)
case("ReduceSum half rounds each sum", "ReduceSum(d, a, t, n);", [h], np.add.accumulate(tree(hblocks))[-1:])
case(
    "ReduceSum of as many elements as the mask register says",
    "SetMaskCount(); SetVectorMask<float, MaskMode::COUNTER>(0, 1000); ReduceSum<float, false>(d, a, t, 1);"
    " SetMaskNorm(); ResetMask();",
    [x],
    np.add.accumulate(tree(blocks))[-1:],
)
case("ReduceSum of one", "ReduceSum(d, a, t, 1);", [x], x[:1])
case(
    "ReduceSum of infinities",
    "ReduceSum(d, a, t, n);",
    [np.array([np.inf, -np.inf] * 8, np.float32)],
    np.array([np.nan], np.float32),
)
case("ReduceMax", "ReduceMax(d, a, t, n);", [x], x.max(keepdims=True))
case("ReduceMin", "ReduceMin(d, a, t, n);", [x], x.min(keepdims=True))
twice = x.copy()
twice[[700, 30]] = 50
case(
    "ReduceMax with the first position",
    "ReduceMax(d, a, t, n, true);",
    [twice],
    with_index(twice[30:31], np.array([30])),
)
case(
    "ReduceMin half with position",
    "ReduceMin(d, a, t, n, true);",
    [h],
    with_index(h.min(keepdims=True), h.argmin(keepdims=True)),
)
holed = x.copy()
holed[500] = np.nan
case("ReduceMax finds NaN", "ReduceMax(d, a, t, n);", [holed], np.array([np.nan], np.float32))
rows = x[:512].reshape(8, 64)
case("WholeReduceSum", "WholeReduceSum(d, a, 64, 8, 1, 1, 8);", [x[:512]], tree(rows))
padded = np.where(np.arange(64) < 50, rows, np.float32(-0.0))
case("WholeReduceSum of a prefix", "WholeReduceSum(d, a, 50, 8, 1, 1, 8);", [x[:512]], tree(padded))
case(
    "WholeReduceSum of mask bits, results two apart",
    "uint64_t mask[2] = {0x5555555555555555ull, 0}; WholeReduceSum(d, a, mask, 8, 2, 1, 8);",
    [x[:512]],
    np.where(
        np.arange(16) % 2 == 0, np.repeat(tree(np.where(np.arange(64) % 2 == 0, rows, np.float32(-0.0))), 2), old[:16]
    ),
    initial=old[:16],
)
hrows = h[:512].reshape(4, 128)
case("WholeReduceSum half rounds each level", "WholeReduceSum(d, a, 128, 4, 1, 1, 8);", [h[:512]], tree(hrows))
case("WholeReduceMax", "WholeReduceMax(d, a, 64, 8, 1, 1, 8);", [x[:512]], with_index(rows.max(1), rows.argmax(1)))
case(
    "WholeReduceMin, position first",
    "WholeReduceMin(d, a, 64, 8, 1, 1, 8, ReduceOrder::ORDER_INDEX_VALUE);",
    [x[:512]],
    np.stack([rows.argmin(1).astype(np.uint32).view(np.float32), rows.min(1)], axis=1).reshape(-1),
)
case(
    "WholeReduceMax of values only",
    "WholeReduceMax(d, a, 50, 8, 1, 1, 8, ReduceOrder::ORDER_ONLY_VALUE);",
    [x[:512]],
    rows[:, :50].max(1),
)
case(
    "WholeReduceMax of positions only",
    "WholeReduceMax(d, a, 64, 8, 1, 1, 8, ReduceOrder::ORDER_ONLY_INDEX);",
    [x[:512]],
    rows.argmax(1).astype(np.uint32).view(np.float32),
)
octets = x[:512].reshape(64, 8)
case("BlockReduceSum", "BlockReduceSum(d, a, 64, 8, 1, 1, 8);", [x[:512]], tree(octets))
case("BlockReduceMax", "BlockReduceMax(d, a, 64, 8, 1, 1, 8);", [x[:512]], octets.max(1))
case(
    "BlockReduceMin leaves results of empty blocks",
    "BlockReduceMin(d, a, 24, 1, 1, 1, 8);",
    [x[:64]],
    np.concatenate([octets[:3].min(1), old[:5]]),
    initial=old[:8],
)
overflow = np.array([60000, 60000, -30000, 100] + [0] * 12, np.float16)
case(
    "BlockReduceSum half overflows to infinity",
    "BlockReduceSum(d, a, 16, 1, 1, 1, 8);",
    [overflow],
    np.array([np.inf] + [0] * 7, np.float16),
)
sums = np.concatenate([tree(np.where(np.arange(64) < 20, rows, np.float32(-0.0))), np.full(56, -0.0, np.float32)])
case("ReduceSum over masked repeats", "ReduceSum(d, a, t, 20, 8, 8);", [x[:512]], tree(sums[None]))
case(
    "ReduceSum over mask bits, repeats two blocks apart",
    "uint64_t mask[2] = {0xff00ull, 0}; ReduceSum(d, a, t, mask, 15, 2);",
    [x[:512]],
    tree(
        np.append(tree(np.stack([x[16 * r + 8 : 16 * r + 16] for r in range(15)])), np.full(49, -0.0, np.float32))[None]
    ),
)
# More repeats than one repeat holds: the tree has two rounds of repeats' sums.
many = np.tile(tree(rows[:1]), 70)
case(
    "ReduceSum of one row many times",
    "ReduceSum(d, a, t, 64, 70, 0);",
    [x[:512]],
    tree(
        np.append(tree(np.pad(many, (0, 58), constant_values=-0.0).reshape(2, 64)), np.full(62, -0.0, np.float32))[None]
    ),
)
case(
    "ReduceSum in counter mode",
    "SetMaskCount(); ReduceSum(d, a, t, 200, 1, 8); SetMaskNorm(); ResetMask();",
    [x[:512]],
    tree(
        np.append(
            tree(np.append(x[:200], np.full(56, -0.0, np.float32)).reshape(4, 64)), np.full(60, -0.0, np.float32)
        )[None]
    ),
)
case(
    "ReduceMin of a prefix of each repeat, repeats apart, with position",
    "ReduceMin(d, a, t, 20, 4, 16, true);",
    [x[:512]],
    with_index(
        x[:512].reshape(4, 128)[:, :20].min(keepdims=True).reshape(1), _position(x[:512].reshape(4, 128)[:, :20])
    ),
)
case(
    "ReduceMax of no repeat leaves the result",
    "d.SetValue(0, 3.0f); ReduceMax(d, a, t, 64, 0, 8);",
    [x[:64]],
    np.float32([3]),
)
case(
    "ReduceMax over mask bits with position",
    "uint64_t mask[2] = {0xf0, 0}; ReduceMax(d, a, t, mask, 8, 8, true);",
    [x[:512]],
    with_index(
        rows[:, 4:8].max(keepdims=True).reshape(1),
        np.array([np.where(np.isin(np.arange(512) % 64, [4, 5, 6, 7]), x[:512], -9).argmax()]),
    ),
)
pairs = x[:512].reshape(-1, 2)
case("PairReduceSum", "PairReduceSum(d, a, 64, 8, 1, 1, 8);", [x[:512]], pairs[:, 0] + pairs[:, 1])

case("Duplicate", "Duplicate(d, 2.5f, 77);", [x], np.where(np.arange(90) < 77, np.float32(2.5), np.float32(0)))
case("Duplicate bfloat16", "Duplicate(d, bfloat16_t(2.5f), 33);", [x], np.full(33, 2.5, bfloat16))
case(
    "Duplicate by repeats",
    "Duplicate(d, 7, 5, 2, 1, 8);",
    [x],
    np.where(np.arange(128) % 64 < 5, 7, 0).astype(np.int32),
)
case("Brcb", "Brcb(d, a, 2, {1, 8});", [x[:16]], np.repeat(x[:16], 8))
case("Brcb half", "Brcb(d, a, 1, {1, 8});", [h[:8]], np.repeat(h[:8], 16))
case(
    "Brcb, blocks two apart",
    "Brcb(d, a, 1, {2, 16});",
    [x[:8]],
    np.where(np.arange(120) // 8 % 2 == 0, np.repeat(x[:8], 16)[:120], np.float32(0)),
    initial=np.zeros(120, np.float32),
)
case(
    "BroadCast of a column",
    "uint32_t to[2] = {5, 24}, from[2] = {5, 1}; BroadCast<float, 2, 1>(d, a, to, from);",
    [x[:5]],
    np.repeat(x[:5], 24),
)
case(
    "BroadCast of a row",
    "uint32_t to[2] = {5, 24}, from[2] = {1, 24}; BroadCast<float, 2, 0>(d, a, to, from);",
    [x[:24]],
    np.tile(x[:24], 5),
)
case("Copy", "Copy(d, a, 64, 2, {1, 1, 8, 8});", [x[:128]], x[:128])
case("Copy of one row many times", "Copy(d, a, 64, 4, {1, 1, 8, 0});", [x[:64]], np.tile(x[:64], 4))
case("CreateVecIndex", "CreateVecIndex(d, -3, 70);", [x], np.arange(-3, 67, dtype=np.int32))
case("ArithProgression", "ArithProgression(d, 1.0f, 0.5f, 20);", [x], 1 + np.arange(20, dtype=np.float32) / 2)
places = rng.integers(0, 200, 60).astype(np.uint32)
case("Gather", "Gather(d, a, b, 32, 60);", [x[:208], places * 4], x[places + 8])
case(
    "Gather by repeats",
    "Gather(d, a, b, 0, 30, 2, 8);",
    [x[:208], np.tile(places, 3)[:128] * 4],
    np.where(np.arange(128) % 64 < 30, x[np.tile(places, 3)[:128]], np.float32(0)),
)
picked = np.tile(places, 5)[:256]
case(
    "Gather half by mask bits, repeats nine blocks apart",
    "uint64_t mask[2] = {0x0f0full, 0x1ull}; Gather(d, a, b, 0, mask, 2, 9);",
    [h[:208], picked * 2],
    np.where(
        (np.arange(272) % 144 < 128) & np.isin(np.arange(272) % 144, [0, 1, 2, 3, 8, 9, 10, 11, 64]),
        h[picked[np.minimum(np.arange(272) // 144 * 128 + np.arange(272) % 144, 255)]],
        np.float16(0),
    ),
    initial=np.zeros(272, np.float16),
)
square = rng.integers(-9, 9, (16, 16)).astype(np.int16)
case("Transpose", "Transpose(d, a);", [square.reshape(-1)], square.T.reshape(-1).copy())

PROGRAM = Program("reduce_values", CASES)


@pytest.mark.parametrize("mode", ["fast", "checked"])
@pytest.mark.parametrize("name", PROGRAM.cases)
def test_instruction_gives_its_documented_value(name: str, mode: str) -> None:
    PROGRAM.check(name, checked=mode == "checked")
