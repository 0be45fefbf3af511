"""The demo's model, weights and tokenizer on their own, without kernels."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import jax
import jax.numpy as jnp
import jinja2
import numpy as np
import pytest
from gguf.quants import dequantize
from tokenizers import Tokenizer

from smollm2.generate import generate, padded
from smollm2.model import Config, Params, attention, forward, forward_scan, rms_norm, rope, stack_layers
from smollm2.tokenizer import chat_prompt
from smollm2.weights import load_params, open_gguf

TOKENS = [3, 141, 59, 26, 5, 358, 97, 93, 238, 46, 264]


def test_the_model_file_does_not_mention_the_package() -> None:
    assert "npu" not in (Path(__file__).parents[2] / "examples/smollm2/model.py").read_text().replace("NPUs", "")


def test_logits_have_one_row_per_token(small: Params, small_config: Config) -> None:
    assert forward(small, jnp.asarray([TOKENS])).shape == (1, len(TOKENS), small_config.vocab)


def test_scan_over_stacked_layers_gives_the_same_logits(small: Params) -> None:
    tokens = jnp.asarray([TOKENS])
    # The same operations in the same order, fused differently by XLA.
    np.testing.assert_allclose(forward_scan(stack_layers(small), tokens), forward(small, tokens), rtol=1e-4, atol=1e-4)


def test_tokens_after_the_end_do_not_change_earlier_logits(small: Params) -> None:
    short, long = (forward(small, padded(TOKENS, length))[0, : len(TOKENS)] for length in (11, 20))
    np.testing.assert_allclose(short, long, rtol=1e-4, atol=1e-4)


def test_a_sequence_longer_than_the_buffer_is_refused() -> None:
    with pytest.raises(ValueError, match="11 tokens do not fit into a buffer of 10"):
        padded(TOKENS, 10)


def test_generation_is_greedy_and_stops_after_the_stop_token(small: Params) -> None:
    step = jax.jit(forward)
    answer = generate(step, small, TOKENS, length=16, new_tokens=4)
    logits = np.asarray(step(small, padded(TOKENS, 16)))
    assert answer[0] == int(logits[0, len(TOKENS) - 1].argmax())
    assert len(answer) == 4
    assert generate(step, small, TOKENS, length=16, new_tokens=4, stop=answer[0]) == answer[:1]


def test_rms_norm_is_the_formula_in_float64() -> None:
    rng = np.random.default_rng(0)
    x, weight = rng.standard_normal((2, 5, 48)), rng.standard_normal(48)
    want = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * weight
    got = rms_norm(jnp.asarray(x, jnp.float32), jnp.asarray(weight, jnp.float32), 1e-5)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_attention_is_jax_nns() -> None:
    keys = jax.random.split(jax.random.key(0), 3)
    q = jax.random.normal(keys[0], (2, 7, 6, 16))
    k, v = (jax.random.normal(key, (2, 7, 2, 16)) for key in keys[1:])
    want = jax.nn.dot_product_attention(q, k, v, is_causal=True)
    np.testing.assert_allclose(attention(q, k, v), want, rtol=1e-5, atol=1e-6)


def test_rope_keeps_scores_of_equal_distance() -> None:
    rng = np.random.default_rng(0)
    q, k = (np.broadcast_to(rng.standard_normal(64).astype(np.float32), (1, 9, 1, 64)) for _ in range(2))
    scores = np.einsum("btnh,bsnh->ts", rope(jnp.asarray(q), 1e5), rope(jnp.asarray(k), 1e5))
    for distance in range(-5, 6):
        np.testing.assert_allclose(np.diagonal(scores, distance), scores.diagonal(distance)[0], rtol=1e-4)


def test_queries_and_keys_leave_the_order_of_gguf(path: Path, small: Params, small_config: Config) -> None:
    """RoPE over pairs (2i, 2i + 1) of the file's rows is RoPE over pairs (i, i + H/2) of the model's."""
    tensors = {tensor.name: tensor for tensor in open_gguf(path).tensors}
    raw = tensors["blk.0.attn_k.weight"]
    stored = dequantize(raw.data, raw.tensor_type)[:64, : small_config.width]
    x = np.random.default_rng(0).standard_normal((9, small_config.width)).astype(np.float32)
    pairs = (x @ stored.T).reshape(9, 32, 2)
    angle = np.arange(9)[:, None] * 1e5 ** (-np.arange(32) / 32)
    first = pairs[..., 0] * np.cos(angle) - pairs[..., 1] * np.sin(angle)
    second = pairs[..., 1] * np.cos(angle) + pairs[..., 0] * np.sin(angle)
    head = jnp.asarray(x @ np.asarray(small.layers[0].key)[:, :64])[None, :, None, :]
    np.testing.assert_allclose(rope(head, 1e5)[0, :, 0], np.concatenate([first, second], axis=-1), rtol=1e-4, atol=1e-4)


def test_a_smaller_config_takes_the_leading_corner(path: Path, small: Params, small_config: Config) -> None:
    smaller = load_params(path, dataclasses.replace(small_config, layers=1, ffn=128, vocab=100))
    np.testing.assert_array_equal(smaller.embedding, small.embedding[:100])
    np.testing.assert_array_equal(smaller.layers[0].gate, small.layers[0].gate[:, :128])
    np.testing.assert_array_equal(smaller.layers[0].down, small.layers[0].down[:128])


def test_progress_counts_every_tensor_once(path: Path, small_config: Config) -> None:
    seen: list[tuple[int, int]] = []
    load_params(path, small_config, lambda done, total: seen.append((done, total)))
    assert seen == [(number, 29) for number in range(1, 30)]


@pytest.mark.parametrize(
    "text",
    ["What is the capital of France?", "1234 + 5 = 6789", "  two  spaces\n\nand\tlines ", "naïve café — 東京 🚀", ""],
)
def test_text_survives_the_tokenizer(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_digits_are_tokens_of_their_own(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("31415").tokens == list("31415")


def test_markers_are_single_tokens(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("<|im_start|>user").ids[0] == 1
    assert tokenizer.decode([1, 2]) == ""


def test_the_prompt_is_that_of_the_files_chat_template(path: Path) -> None:
    template = jinja2.Template(open_gguf(path).fields["tokenizer.chat_template"].contents())
    messages = [{"role": "user", "content": "Why?"}]
    assert chat_prompt("Why?") == template.render(messages=messages, add_generation_prompt=True)
