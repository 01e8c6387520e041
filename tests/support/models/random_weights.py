"""Models of a few thousand parameters, made on the spot: random weights, a tokenizer of bytes, any chat template."""

from __future__ import annotations

from pathlib import Path
from typing import Any

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
NO_SYSTEM = (
    "{% for m in messages %}{% if m['role'] == 'system' %}{{ raise_exception('no system here') }}{% endif %}"
    "[{{ m['role'] }}] {{ m['content'] }}\n{% endfor %}[assistant] "
)
SILENT_SYSTEM = "{% for m in messages if m['role'] == 'user' %}[user] {{ m['content'] }}\n{% endfor %}[assistant] "
THINKS = CHATML.replace("assistant\n{% endif", "assistant\n<think>\n{% endif")

LLAMA: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
}
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


def tokenizer(template: str | None = CHATML) -> Any:
    """One token for each byte, and three special ones."""
    import tokenizers
    import transformers

    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: number for number, letter in enumerate([*SPECIAL, *letters])}
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=[]))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.add_special_tokens([tokenizers.AddedToken(word, special=True) for word in SPECIAL])
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token=SPECIAL[0], pad_token=SPECIAL[0])
    fast.chat_template = template
    return fast


def save(folder: Path, *, template: str | None = CHATML, seed: int = 0, kind: str = "Llama", **changes: Any) -> Path:
    """Write a model with random weights and its tokenizer into `folder`; `changes` go into its configuration."""
    import torch
    import transformers

    transformers.utils.logging.set_verbosity_error()
    torch.manual_seed(seed)
    words = tokenizer(template)
    settings = {**(LLAMA if kind != "Mamba" else {}), "vocab_size": len(words), "eos_token_id": 0, **changes}
    config = getattr(transformers, f"{kind}Config")(**settings)
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():  # else all logits of a small model are nearly the same
            if parameter.dim() > 1:
                parameter.normal_(0.0, 0.3)
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    return folder
