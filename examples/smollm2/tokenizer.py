"""SmolLM2's tokenizer, rebuilt from the vocabulary and merges inside the GGUF file."""

from __future__ import annotations

from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

from .weights import open_gguf

_CONTROL = 3  # GGUF's token type for markers such as <|im_start|>
_SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
END_OF_TURN = "<|im_end|>"


def load_tokenizer(path: Path) -> Tokenizer:
    """Byte-level BPE; digits are split one by one, as SmolLM2 was trained."""
    fields = open_gguf(path).fields
    tokens: list[str] = fields["tokenizer.ggml.tokens"].contents()
    types: list[int] = fields["tokenizer.ggml.token_type"].contents()
    merges: list[str] = fields["tokenizer.ggml.merges"].contents()
    vocab = {token: index for index, token in enumerate(tokens)}
    tokenizer = Tokenizer(BPE(vocab=vocab, merges=[_pair(merge) for merge in merges]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    control = [token for token, kind in zip(tokens, types, strict=True) if kind == _CONTROL]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control])
    return tokenizer


def chat_prompt(question: str) -> str:
    """The instruct model's chat template for one question, ending where the answer begins."""
    turns = [("system", _SYSTEM), ("user", question)]
    spoken = "".join(f"<|im_start|>{role}\n{text}{END_OF_TURN}\n" for role, text in turns)
    return spoken + "<|im_start|>assistant\n"


def _pair(merge: str) -> tuple[str, str]:
    left, right = merge.split(" ")
    return left, right
