"""What a query may see, block by block; the kernels of both directions share it."""

from __future__ import annotations

from dataclasses import dataclass

import npu_kernels.language as nl


@dataclass(frozen=True)
class Masking:
    """How scores are made of products.

    Attributes:
        masked, causal, query_padded, key_padded: which conditions apply.
        scale: factor on the products.
        mask_value: the score of a hidden key.
    """

    masked: bool
    causal: bool
    query_padded: bool
    key_padded: bool
    scale: float
    mask_value: float


def mask_block(
    mask: nl.Tensor, b: nl.Tile, n: nl.Tile, rows: tuple[nl.Tile, int], columns: tuple[nl.Tile, int]
) -> nl.Tile:
    """A block of the last two axes of ``mask``, each given as start and size; axes of size 1 keep that size."""
    head = (0 if mask.shape[0] == 1 else b, 0 if mask.shape[1] == 1 else n)
    places = [
        slice(0, 1) if size == 1 else slice(start, start + length)
        for size, (start, length) in zip(mask.shape[2:], (rows, columns), strict=True)
    ]
    return nl.load(mask[(*head, *places)])
