"""``cd examples && python -m smollm2``: SmolLM2 answers a question as plain JAX and through generated Ascend C."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import jax
import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import npu_kernels

from .display import kernels_table, times_table
from .generate import Forward, generate, padded
from .kernels import build_all, kernel_calls
from .model import Params, forward
from .tokenizer import END_OF_TURN, chat_prompt, load_tokenizer
from .weights import load_params, weights_path


@dataclass(frozen=True)
class Run:
    """An answer.

    Attributes:
        tokens: its ids.
        logits: [T, V] of prompt and answer together.
        seconds: by what took them.
        passes: forward passes.
    """

    tokens: list[int]
    logits: np.ndarray
    seconds: dict[str, float]
    passes: int


def answer(
    function: Forward, params: Params, prompt: Sequence[int], *, length: int, new_tokens: int, stop: int | None
) -> Run:
    """Compiles `function`, calls it twice on the prompt and lets it generate."""
    seconds = {}
    buffer = padded(prompt, length)

    def timed(what: str, call: jax.stages.Compiled | Forward) -> jax.Array:
        start = time.perf_counter()
        logits: jax.Array = jax.block_until_ready(call(params, buffer))
        seconds[what] = time.perf_counter() - start
        return logits

    start = time.perf_counter()
    compiled = jax.jit(function).lower(params, buffer).compile()
    seconds["compile"] = time.perf_counter() - start
    timed("first call", compiled)
    timed("second call", compiled)
    start = time.perf_counter()
    tokens = generate(compiled, params, prompt, length=length, new_tokens=new_tokens, stop=stop)
    seconds["answer"] = time.perf_counter() - start
    spoken = [*prompt, *tokens]
    logits = compiled(params, padded(spoken, length))
    return Run(tokens, np.asarray(logits[0, : len(spoken)]), seconds, passes=len(tokens) + 3)


def main(
    question: Annotated[str, typer.Argument(help="What to ask.")] = "What is the capital of France?",
    new_tokens: Annotated[int, typer.Option(help="Tokens of the answer at most.")] = 32,
) -> None:
    """Ask SmolLM2-135M-Instruct a question twice, and show that kernels in Ascend C gave the second answer."""
    console = Console(soft_wrap=True)
    columns = (TextColumn("{task.description:<28}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        loading = progress.add_task("loading weights", total=None)
        path = weights_path()
        params = load_params(path, progress=lambda done, total: progress.update(loading, completed=done, total=total))
        tokenizer = load_tokenizer(path)
        prompt = tokenizer.encode(chat_prompt(question)).ids
        length = -(-(len(prompt) + new_tokens) // 16) * 16
        stop = tokenizer.token_to_id(END_OF_TURN)

        fast = npu_kernels.substitute(forward)
        finding = progress.add_task("finding attention and norms", total=1)
        start = time.perf_counter()
        report = npu_kernels.explain(forward, params, padded(prompt, length))
        calls = kernel_calls(fast, params, padded(prompt, length))
        found_in = time.perf_counter() - start
        progress.update(finding, completed=1)
        building = progress.add_task("building kernels", total=len({call.kernel for call in calls}))
        start = time.perf_counter()
        sources = build_all(calls, lambda: progress.advance(building))
        built_in = time.perf_counter() - start

        runs = {}
        answering = progress.add_task("answering", total=2)
        for name, function in (("plain JAX", forward), ("kernels", fast)):
            launched_before = npu_kernels.launches()
            runs[name] = answer(function, params, prompt, length=length, new_tokens=new_tokens, stop=stop)
            progress.advance(answering)
        launched = npu_kernels.launches() - launched_before

    plain, kernels = runs["plain JAX"], runs["kernels"]
    console.print(f"\n[bold]{question}[/]")
    for name, run in runs.items():
        console.print(f"[bold]{name:>10}[/]  {tokenizer.decode(run.tokens).strip()}", highlight=False)
    same = plain.tokens == kernels.tokens
    console.print(
        f"\nThe {len(plain.tokens)} tokens are identical." if same else "\n[red]The tokens differ.[/]", highlight=False
    )
    if same:
        difference = np.abs(plain.logits - kernels.logits).max()
        console.print(
            f"Largest difference between the logits: {difference:.1e} (logits reach {np.abs(plain.logits).max():.0f})."
        )
    console.print(kernels_table(report, calls, launched, kernels.passes))
    console.print(times_table(found_in, built_in, plain.seconds, kernels.seconds))
    console.print("\nThe generated Ascend C:")
    for source in sources:
        console.print(f"  {source}", highlight=False)
    if not same:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
