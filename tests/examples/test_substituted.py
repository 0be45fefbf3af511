"""The demo's model through `substitute`: a small model cut from the file's numbers in every run, the whole in CI.

A logit is a sum of `width` products after `layers` layers. Kernels add in another order than XLA does, which moves a
logit in the last places of a float32 sum; on the whole model 2e-3 is a ten-thousandth of what logits reach.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tokenizers import Tokenizer

import npu_kernels
from smollm2.generate import Forward, generate, padded
from smollm2.model import Params, forward, forward_scan, stack_layers
from smollm2.tokenizer import END_OF_TURN, chat_prompt

TOKENS = [3, 141, 59, 26, 5, 358, 97, 93, 238, 46, 264]
QUESTION = "What is the capital of France?"
PROMPTS = (
    "Hi",
    QUESTION,
    "Write one short sentence about the sea in autumn.",
    "A train leaves at 9:40 and arrives at 12:05. How long does it travel? Explain step by step how you get there.",
    "List five things one should know before adopting a dog, each with a short reason, and say which of them matters "
    "the most for somebody who lives alone in a small flat in a big city, works long hours, and has never had a pet.",
)


def counted(call: Callable[[], object]) -> int:
    before = npu_kernels.launches()
    jax.block_until_ready(call())
    return (npu_kernels.launches() - before).total()


def test_every_attention_and_norm_of_the_model_is_replaced(small: Params) -> None:
    report = npu_kernels.explain(forward, small, padded(TOKENS, 16))
    report.require("attention", 3)
    report.require("rms_norm", 7)
    assert report.near_misses == []


def test_the_report_names_the_lines_of_the_model(small: Params) -> None:
    report = npu_kernels.explain(forward, small, padded(TOKENS, 16))
    files = {entry.location.rpartition(":")[0] for entry in report.replaced}
    assert len(files) == 1
    assert files.pop().endswith("smollm2/model.py")


def test_every_replaced_instance_is_launched_once_a_pass(small: Params) -> None:
    fast = jax.jit(npu_kernels.substitute(forward))
    tokens = padded(TOKENS, 16)
    jax.block_until_ready(fast(small, tokens))
    assert counted(lambda: fast(small, tokens)) == 10


def test_logits_are_those_of_plain_jax(small: Params) -> None:
    tokens = padded(TOKENS, 16)
    plain, fast = forward(small, tokens), npu_kernels.substitute(forward)(small, tokens)
    np.testing.assert_allclose(fast, plain, rtol=1e-4, atol=1e-4)


def test_generation_chooses_the_same_tokens(small: Params) -> None:
    answers = [
        generate(jax.jit(function), small, TOKENS, length=32, new_tokens=12)
        for function in (forward, npu_kernels.substitute(forward))
    ]
    assert answers[0] == answers[1]


def test_a_scan_over_layers_counts_its_body_once_and_launches_it_every_turn(small: Params) -> None:
    stacked, tokens = stack_layers(small), padded(TOKENS, 16)
    report = npu_kernels.explain(forward_scan, stacked, tokens)
    report.require("attention", 1)
    report.require("rms_norm", 3)
    fast = jax.jit(npu_kernels.substitute(forward_scan))
    np.testing.assert_allclose(fast(stacked, tokens), forward_scan(stacked, tokens), rtol=1e-4, atol=1e-4)
    assert counted(lambda: fast(stacked, tokens)) == 10


@pytest.fixture(scope="session")
def both() -> tuple[Forward, Forward]:
    return jax.jit(forward), jax.jit(npu_kernels.substitute(forward))


@pytest.mark.weights
@pytest.mark.parametrize("number", range(len(PROMPTS)))
def test_whole_model_has_the_same_arg_max_everywhere(
    whole: Params, tokenizer: Tokenizer, both: tuple[Forward, Forward], number: int
) -> None:
    ids = tokenizer.encode(chat_prompt(PROMPTS[number])).ids
    plain, fast = (np.asarray(function(whole, jnp.asarray([ids], jnp.int32)))[0] for function in both)
    assert plain.shape == (len(ids), 49152)
    np.testing.assert_array_equal(plain.argmax(-1), fast.argmax(-1))
    assert np.abs(plain - fast).max() <= 2e-3


def test_prompts_differ_in_length(tokenizer: Tokenizer) -> None:
    assert len({len(tokenizer.encode(prompt).ids) for prompt in PROMPTS}) == len(PROMPTS)


@pytest.mark.weights
def test_whole_model_answers_with_the_same_tokens(
    whole: Params, tokenizer: Tokenizer, both: tuple[Forward, Forward]
) -> None:
    prompt = tokenizer.encode(chat_prompt(QUESTION)).ids
    answers = [generate(function, whole, prompt, length=80, new_tokens=32) for function in both]
    assert len(answers[0]) == 32
    assert answers[0] == answers[1]
    stop = tokenizer.token_to_id(END_OF_TURN)
    assert "Paris" in tokenizer.decode(answers[0][: answers[0].index(stop)] if stop in answers[0] else answers[0])


@pytest.mark.weights
def test_whole_model_has_thirty_attention_and_sixty_one_norms(whole: Params, both: tuple[Forward, Forward]) -> None:
    tokens = padded([1], 64)
    report = npu_kernels.explain(forward, whole, tokens)
    report.require("attention", 30)
    report.require("rms_norm", 61)
    jax.block_until_ready(both[1](whole, tokens))
    assert counted(lambda: both[1](whole, tokens)) == 91


@pytest.mark.weights
def test_whole_model_in_a_scan_has_four_instances_and_ninety_one_launches(whole: Params) -> None:
    stacked, tokens = stack_layers(whole), padded([1], 64)
    report = npu_kernels.explain(forward_scan, stacked, tokens)
    report.require("attention", 1)
    report.require("rms_norm", 3)
    fast = jax.jit(npu_kernels.substitute(forward_scan))
    logits = fast(stacked, tokens)
    np.testing.assert_array_equal(logits.argmax(-1), jax.jit(forward_scan)(stacked, tokens).argmax(-1))
    assert counted(lambda: fast(stacked, tokens)) == 91
