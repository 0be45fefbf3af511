"""Attention is found however it is written, and the replacement computes the same."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from npu_kernels.substitution import Pattern, Report, substitute

Check = Callable[..., Report]
B, T, S, N, K, H = 2, 5, 7, 4, 2, 8
MIN = float(np.finfo(np.float32).min)


def draw(*shape: int, dtype: str = "float32", seed: int = 0, scale: float = 1.0) -> jax.Array:
    values = np.random.default_rng((seed, *shape)).standard_normal(shape) * scale
    return jnp.asarray(values, dtype)


def qkv(n: int = N, k: int = N, t: int = T, s: int = S, dtype: str = "float32") -> tuple[jax.Array, ...]:
    return (
        draw(B, t, n, H, dtype=dtype),
        draw(B, s, k, H, dtype=dtype, seed=1),
        draw(B, s, k, H, dtype=dtype, seed=2),
    )


def random_mask(*shape: int) -> np.ndarray[Any, Any]:
    """A mask with at least one row that sees nothing."""
    mask = np.random.default_rng(5).random(shape) < 0.6
    mask[..., 0, :] = False
    return mask


def written(
    scores: Callable[[Any, Any], Any], then: Callable[[Any], Any] = lambda s: s, out: str = "bnts,bsnh->btnh"
) -> Callable[..., Any]:
    return lambda q, k, v: jnp.einsum(out, jax.nn.softmax(then(scores(q, k)), axis=-1), v)


SCALES = {
    "on the scores": written(lambda q, k: jnp.einsum("btnh,bsnh->bnts", q, k) * 0.3),
    "dividing the scores": written(lambda q, k: jnp.einsum("btnh,bsnh->bnts", q, k) / math.sqrt(H)),
    "on the query": written(lambda q, k: jnp.einsum("btnh,bsnh->bnts", q * 0.3, k)),
    "on the key": written(lambda q, k: jnp.einsum("btnh,bsnh->bnts", q, k / 3.0)),
    "on both": written(lambda q, k: jnp.einsum("btnh,bsnh->bnts", q / jnp.sqrt(3.0), k * 0.5)),
    "nowhere": written(lambda q, k: jnp.einsum("btnh,bsnh->bnts", q, k)),
    "negative": written(lambda q, k: jnp.einsum("btnh,bsnh->bnts", -q, k) * 0.3),
    "key first": written(lambda q, k: jnp.einsum("bsnh,btnh->bnts", k, q) * 0.3),
    "queries before heads": written(lambda q, k: jnp.einsum("btnh,bsnh->btns", q, k) * 0.3, out="btns,bsnh->btnh"),
    "by matmul": lambda q, k, v: jnp.swapaxes(
        jax.nn.softmax(jnp.swapaxes(q, 1, 2) @ jnp.moveaxis(k, 1, 3) * 0.3) @ jnp.swapaxes(v, 1, 2), 1, 2
    ),
}


@pytest.mark.parametrize("name", SCALES)
def test_the_scale_may_stand_anywhere(check: Check, name: str) -> None:
    check(SCALES[name], *qkv(), attention=1)


def test_the_softmax_may_be_spelled_out(check: Check) -> None:
    def spelled(q: Any, k: Any, v: Any) -> Any:
        s = jnp.einsum("btnh,bsnh->bnts", q, k) * 0.3
        e = jnp.exp(s - s.max(axis=-1, keepdims=True))
        return jnp.einsum("bnts,bsnh->btnh", e * (1 / e.sum(axis=-1, keepdims=True)), v)

    check(spelled, *qkv(), attention=1)


def test_the_division_may_come_after_the_second_product(check: Check) -> None:
    def late(q: Any, k: Any, v: Any) -> Any:
        s = jnp.einsum("btnh,bsnh->btns", q, k) * 0.3
        e = jnp.exp(s - s.max(axis=-1, keepdims=True))
        return jnp.einsum("btns,bsnh->btnh", e, v) / e.sum(axis=-1)[..., None]

    check(late, *qkv(), attention=1)


def test_heads_may_be_missing_or_further_batch_axes_present(check: Check) -> None:
    def single(q: Any, k: Any, v: Any) -> Any:
        return jax.nn.softmax(q @ k.T / math.sqrt(H)) @ v

    flat = draw(T, H), draw(S, H, seed=1), draw(S, H, seed=2)
    check(single, *flat, attention=1)
    check(jax.vmap(single), draw(3, T, H), draw(3, S, H), draw(3, S, H, seed=2), attention=1)
    deep = draw(2, 3, N, T, H), draw(2, 3, N, S, H), draw(2, 3, N, S, H, seed=2)
    check(jax.vmap(jax.vmap(jax.vmap(single))), *deep, attention=1)


def grouped(q: Any, k: Any, v: Any) -> Any:
    q = q.reshape(B, T, K, N // K, H)
    p = jax.nn.softmax(jnp.einsum("btkgh,bskh->bkgts", q, k) * 0.3)
    return jnp.einsum("bkgts,bskh->btkgh", p, v).reshape(B, T, N, H)


def repeated(q: Any, k: Any, v: Any) -> Any:
    k, v = (jnp.repeat(x, N // K, axis=2) for x in (k, v))
    return jnp.einsum("bnts,bsnh->btnh", jax.nn.softmax(jnp.einsum("btnh,bsnh->bnts", q, k) * 0.3), v)


@pytest.mark.parametrize("function", [grouped, repeated, jax.nn.dot_product_attention])
def test_key_heads_may_be_shared_by_groups_of_query_heads(check: Check, function: Callable[..., Any]) -> None:
    report = check(function, *qkv(k=K), attention=1)
    assert report.replaced[0].shapes[:2] == ("query f32[2,5,4,8]", "key f32[2,7,2,8]")


def masked(q: Any, k: Any, v: Any, mask: Any, fill: float = MIN) -> Any:
    s = jnp.einsum("btnh,bsnh->bnts", q, k) * 0.3
    return jnp.einsum("bnts,bsnh->btnh", jax.nn.softmax(jnp.where(mask, s, fill)), v)


@pytest.mark.parametrize("shape", [(T, S), (B, 1, T, S), (1, N, T, S), (B, N, T, S), (B, 1, 1, S), (N, 1, S)])
def test_a_boolean_mask_may_lack_any_axis(check: Check, shape: tuple[int, ...]) -> None:
    check(masked, *qkv(), random_mask(*shape), attention=1)


@pytest.mark.parametrize("fill", [MIN, -1e30, -1e9, -2.3819763e38])
def test_a_finite_fill_makes_fully_masked_rows_uniform(check: Check, fill: float) -> None:
    mask = random_mask(B, 1, T, S)
    check(lambda *args: masked(*args, fill=fill), *qkv(), mask, attention=1)
    q, k, v = qkv()
    np.testing.assert_allclose(masked(q, k, v, mask, fill)[:, 0], v.mean(axis=1), atol=1e-6)


def test_an_infinite_fill_makes_fully_masked_rows_nan(check: Check) -> None:
    def infinite(*args: Any) -> Any:
        return masked(*args, fill=-np.inf)

    mask = random_mask(B, 1, T, S)
    assert np.isnan(infinite(*qkv(), mask)[:, 0]).all()
    check(infinite, *qkv(), mask, attention=1)


ADDITIVE = {
    "select": lambda m: jnp.where(m, 0.0, MIN),
    "select of the opposite": lambda m: jnp.where(~m, MIN, 0.0),
    "one minus": lambda m: (1.0 - m.astype(jnp.float32)) * MIN,
    "minus one": lambda m: (m.astype(jnp.float32) - 1.0) * 1e35,
    "negated": lambda m: -1e31 * (1 - m.astype(jnp.float32)),
}


@pytest.mark.parametrize("name", ADDITIVE)
def test_an_additive_mask_may_be_a_boolean_in_disguise(check: Check, name: str) -> None:
    def added(q: Any, k: Any, v: Any, mask: Any) -> Any:
        s = jnp.einsum("btnh,bsnh->bnts", q, k) * 0.3 + ADDITIVE[name](mask)
        return jnp.einsum("bnts,bsnh->btnh", jax.nn.softmax(s), v)

    check(added, *qkv(), random_mask(B, 1, T, S), attention=1)
    check(added, *qkv(), random_mask(T, S), attention=1)


def test_a_mask_of_numbers_compared_first_is_boolean(check: Check) -> None:
    lengths = jnp.asarray([[1] * 4 + [0] * 3, [0] * 7])
    check(lambda q, k, v, m: masked(q, k, v, m[:, None, None, :] > 0), *qkv(), lengths, attention=1)
    check(lambda q, k, v, m: masked(q, k, v, m[:, None, None, :]), *qkv(), lengths.astype(jnp.float32), attention=1)


CAUSAL = {
    "tril": lambda: jnp.tril(jnp.ones((T, T), bool)),
    "tri": lambda: jnp.tri(T, dtype=bool),
    "comparison": lambda: jnp.arange(T)[:, None] >= jnp.arange(T)[None, :],
    "opposite": lambda: ~(jnp.arange(T)[:, None] < jnp.arange(T)[None, :]),
    "constant": lambda: np.tri(T, dtype=bool),
    "triu": lambda: jnp.logical_not(jnp.triu(jnp.ones((T, T), bool), 1)),
    "of floats": lambda: jnp.tril(jnp.ones((T, T))) > 0,
}
#: Additive masks that were made before the model was traced: nothing but their numbers is left.
TABLES = {
    "lowest": np.where(np.tri(T, dtype=bool), 0, MIN).astype(np.float32),
    "infinite": jnp.triu(jnp.full((T, T), -jnp.inf), 1)[None, None],
    "bfloat16": jnp.asarray(np.where(np.tri(T, dtype=bool), 0, -1e38), jnp.bfloat16),
}


@pytest.mark.parametrize("name", CAUSAL)
def test_a_causal_mask_is_recognised(check: Check, name: str) -> None:
    report = check(lambda q, k, v: masked(q, k, v, CAUSAL[name]()), *qkv(s=T), attention=1)
    assert report.replaced[0].shapes[3:] == ("causal",)


@pytest.mark.parametrize("name", TABLES)
def test_a_constant_additive_mask_is_a_boolean_one(check: Check, name: str) -> None:
    def added(q: Any, k: Any, v: Any) -> Any:
        s = jnp.einsum("btnh,bsnh->bnts", q, k) * 0.3 + TABLES[name]
        return jnp.einsum("bnts,bsnh->btnh", jax.nn.softmax(s), v)

    assert check(added, *qkv(s=T), attention=1).replaced[0].shapes[3:] == ("causal",)


def test_a_constant_additive_mask_that_is_not_causal_is_passed_on(check: Check) -> None:
    table = np.where(np.random.default_rng(5).random((N, T, S)) < 0.6, 0, MIN).astype(np.float32)

    def added(q: Any, k: Any, v: Any) -> Any:
        s = jnp.einsum("btnh,bsnh->bnts", q, k) * 0.3 + table
        return jnp.einsum("bnts,bsnh->btnh", jax.nn.softmax(s), v)

    assert check(added, *qkv(), attention=1).replaced[0].shapes[3:] == ("mask bool[4,1,5,7]",)


def test_a_causal_mask_and_a_padding_mask_are_told_apart(check: Check) -> None:
    def padded(q: Any, k: Any, v: Any, padding: Any) -> Any:
        return masked(q, k, v, jnp.tri(T, dtype=bool) & padding[:, None, None, :])

    padding = jnp.asarray([[True] * 4 + [False], [False] * 5])
    report = check(padded, *qkv(s=T), padding, attention=1)
    assert report.replaced[0].shapes[3:] == ("causal", "mask bool[2,1,1,5]")


def test_other_constant_masks_are_not_taken_for_causal(check: Check) -> None:
    window = np.tri(T, dtype=bool) & ~np.tri(T, k=-3, dtype=bool)
    report = check(lambda q, k, v: masked(q, k, v, window), *qkv(s=T), attention=1)
    assert report.replaced[0].shapes[3:] == ("mask bool[1,1,5,5]",)
    future = np.tri(T, dtype=bool).T
    report = check(lambda q, k, v: masked(q, k, v, future), *qkv(s=T), attention=1)
    assert "causal" not in report.replaced[0].shapes


def test_a_mask_over_heads_is_not_taken_for_causal(check: Check) -> None:
    """Queries and query groups of one length, the mask over the groups."""

    def over_groups(q: Any, k: Any, v: Any) -> Any:
        s = jnp.einsum("tgh,sh->gts", q, k)
        p = jax.nn.softmax(jnp.where(np.tri(T, dtype=bool)[:, None, :], s, MIN))
        return jnp.einsum("gts,sh->tgh", p, v)

    check(over_groups, draw(T, T, H), draw(T, H), draw(T, H, seed=2), attention=1)


def test_nested_masks_of_one_fill_are_one(check: Check) -> None:
    def twice(q: Any, k: Any, v: Any, a: Any, b: Any) -> Any:
        s = jnp.where(b, jnp.where(a, jnp.einsum("btnh,bsnh->bnts", q, k), MIN), MIN)
        return jnp.einsum("bnts,bsnh->btnh", jax.nn.softmax(s), v)

    check(twice, *qkv(), random_mask(T, S), random_mask(B, 1, T, S), attention=1)


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.1}, {"local_window_size": 2}])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_jax_nn_is_found(check: Check, options: dict[str, Any], dtype: str) -> None:
    def call(q: Any, k: Any, v: Any) -> Any:
        return jax.nn.dot_product_attention(q, k, v, **options)

    check(call, *qkv(s=T, dtype=dtype), attention=1)


def test_jax_nn_with_lengths_is_found(check: Check) -> None:
    def call(q: Any, k: Any, v: Any, a: Any, b: Any) -> Any:
        return jax.nn.dot_product_attention(q, k, v, query_seq_lengths=a, key_value_seq_lengths=b)

    check(call, *qkv(), jnp.asarray([5, 2]), jnp.asarray([7, 0]), attention=1)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_everything_in_sixteen_bits_is_found(check: Check, dtype: str) -> None:
    lowest = float(jnp.finfo(dtype).min)
    report = check(lambda *args: masked(*args, fill=lowest), *qkv(dtype=dtype), random_mask(T, S), attention=1)
    assert report.replaced[0].reason == "reorder sums, wider"


def test_products_in_bfloat16_with_a_softmax_in_float32(check: Check) -> None:
    def mixed(q: Any, k: Any, v: Any) -> Any:
        s = jnp.einsum("btnh,bsnh->bnts", q, k, preferred_element_type=jnp.float32) * 0.3
        return jnp.einsum("bnts,bsnh->btnh", jax.nn.softmax(s).astype(q.dtype), v)

    report = check(mixed, *qkv(dtype="bfloat16"), attention=1)
    assert "wider" in report.replaced[0].reason


def test_weights_kept_in_float32_make_the_kernel_compute_in_float32(check: Check) -> None:
    def wide(q: Any, k: Any, v: Any) -> Any:
        q, k, v = (x.astype(jnp.float32) for x in (q, k, v))
        return written(lambda q, k: jnp.einsum("btnh,bsnh->bnts", q, k) * 0.3)(q, k, v)

    report = check(wide, *qkv(dtype="bfloat16"), attention=1)
    assert report.replaced[0].shapes[0] == "query f32[2,5,4,8]"


def test_two_attentions_sharing_a_key_are_two_instances(check: Check) -> None:
    plain = SCALES["on the scores"]
    q, k, v = qkv()
    check(lambda q, k, v: (plain(q, k, v), plain(q * q, k, v)), q, k, v, attention=2)


@pytest.mark.parametrize("magnitude", [1e-4, 1e4])
def test_small_and_large_inputs_agree(check: Check, magnitude: float) -> None:
    q, k, v = (x * magnitude for x in qkv())
    check(masked, q, k, v, random_mask(B, 1, T, S), attention=1)


SPECIAL = [
    (where, form, number)
    for where in ("query", "key", "value")
    for form in ("plain", "select", "additive", "causal")
    for number in (np.nan, np.inf)
    # Whether an infinite score swallows an additive fill is what the documentation leaves open.
    if (where, form, number) != ("key", "additive", np.inf)
]


@pytest.mark.parametrize(("where", "form", "number"), SPECIAL)
def test_a_nan_or_an_infinity_reaches_the_same_rows(check: Check, where: str, form: str, number: float) -> None:
    def call(q: Any, k: Any, v: Any) -> Any:
        s = jnp.einsum("btnh,bsnh->bnts", q, k) * 0.3
        if form == "select":
            s = jnp.where(random_mask(T, T), s, MIN)
        if form == "additive":
            s = s + jnp.where(random_mask(T, T), 0, MIN)
        if form == "causal":
            s = jnp.where(np.tri(T, dtype=bool), s, MIN)
        return jnp.einsum("bnts,bsnh->btnh", jax.nn.softmax(s), v)

    arrays = dict(zip(("query", "key", "value"), qkv(s=T), strict=True))
    arrays[where] = arrays[where].at[0, 3, 1, 2].set(number)
    check(call, *arrays.values(), attention=1)


def test_an_infinite_key_under_an_additive_mask_is_hidden(patterns: tuple[Pattern, ...]) -> None:
    """The stated limit: in the model infinity plus the fill is infinity or NaN, which shows through the mask."""

    def call(q: Any, k: Any, v: Any) -> Any:
        s = jnp.einsum("btnh,bsnh->bnts", q, k) + jnp.where(jnp.arange(T) == 3, MIN, 0)
        return jnp.einsum("bnts,bsnh->btnh", jax.nn.softmax(s), v)

    q, k, v = qkv(s=T)
    spoiled = k.at[:, 3].set(np.inf)
    assert np.isnan(call(q, spoiled, v)).any()
    np.testing.assert_allclose(substitute(call, patterns=patterns)(q, spoiled, v), call(q, k, v), rtol=1e-4, atol=1e-5)
