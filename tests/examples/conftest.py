"""SmolLM2 in two sizes: a small model cut from the file's own numbers, and the whole."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from smollm2.model import Config, Params
from smollm2.weights import load_params, read_config, weights_path


@pytest.fixture(scope="session")
def path() -> Path:
    return weights_path()


@pytest.fixture(scope="session")
def small_config(path: Path) -> Config:
    """Three layers, and the grouping of the heads as in the whole model."""
    whole = read_config(path)
    return dataclasses.replace(whole, layers=3, width=192, heads=6, kv_heads=2, ffn=256, vocab=512)


@pytest.fixture(scope="session")
def small(path: Path, small_config: Config) -> Params:
    return load_params(path, small_config)


@pytest.fixture(scope="session")
def whole(path: Path) -> Params:
    return load_params(path)


@pytest.fixture(scope="session")
def tokenizer(path: Path) -> Tokenizer:
    from smollm2.tokenizer import load_tokenizer

    return load_tokenizer(path)
