"""Models with random weights, made on the spot: how fast one answers does not depend on what it says.

Imports torch: only the processes that measure models on this machine import this module.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers

END, TURN, TURN_ENDS = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CHAT = (
    "{% for turn in messages %}<|im_start|>{{ turn['role'] }}\n{{ turn['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPREAD = 0.3
"""Of the weights; were they smaller, all tokens would be nearly as likely as each other."""


def byte_tokenizer() -> Any:
    """A token for each byte, and three that mark turns and ends."""
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    numbers = {letter: number for number, letter in enumerate([END, TURN, TURN_ENDS, *letters])}
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=numbers, merges=[]))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.add_special_tokens([tokenizers.AddedToken(mark, special=True) for mark in (END, TURN, TURN_ENDS)])
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token=END, pad_token=END)
    fast.chat_template = CHAT
    return fast


def random_llama(sizes: dict[str, Any], *, device: str, dtype: torch.dtype) -> Any:
    """A model of Llama's kind of these sizes, the same every time on one device."""
    torch.manual_seed(0)
    with torch.device(device):
        return transformers.AutoModelForCausalLM.from_config(transformers.LlamaConfig(**sizes), dtype=dtype).eval()


def save_random_llama(folder: Path, sizes: dict[str, Any]) -> Path:
    """Write such a model and a tokenizer of bytes into a folder, as `hf/` reads them."""
    words = byte_tokenizer()
    model = random_llama({"vocab_size": len(words), "eos_token_id": 0, **sizes}, device="cpu", dtype=torch.float32)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0.0, SPREAD)
    transformers.utils.logging.disable_progress_bar()
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    return folder
