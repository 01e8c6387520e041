"""Models in this process, small ones made on the spot: what they answer, together and alone, and what they refuse."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import Completion, Request
from medhelm.errors import ProviderError
from medhelm.extensions.local import generation
from medhelm.extensions.local import huggingface as engines
from medhelm.extensions.local.loading import ChatTemplate
from medhelm.models.provider import SharedResources, separate_reasoning
from tests.support.models import random_weights as tiny_models
from tests.support.models.in_process import answers, mixed, model_in, opened, play, question

torch = pytest.importorskip("torch", reason="torch comes with the extra hf")
transformers = pytest.importorskip("transformers", reason="transformers comes with the extra hf")

pytestmark = pytest.mark.usefixtures("no_network")


def plain(folder: Path, request: Request) -> str:
    """What `generate` of transformers answers to one request by itself."""
    words = transformers.AutoTokenizer.from_pretrained(folder)
    network = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    turns = [{"role": message.role, "content": message.text} for message in request.prompt.messages]
    ids = words.apply_chat_template(turns, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    ends = [0, words.convert_tokens_to_ids("<|im_end|>")]
    out = network.generate(**ids, do_sample=False, max_new_tokens=request.max_tokens, eos_token_id=ends, pad_token_id=0)
    text: str = words.decode(out[0, ids["input_ids"].shape[1] :], skip_special_tokens=True)
    return text


# --- answers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("Mistral", {"sliding_window": 16}),
        ("Gemma2", {"sliding_window": 16, "head_dim": 8}),
        ("GPT2", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 512}),
        ("Bloom", {}),
        ("GptOss", {"head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 16}),
    ],
)
def test_a_batch_does_not_change_a_greedy_answer(kind: str, changes: dict[str, Any], tmp_path: Path) -> None:
    """In float32 on a processor, with positions of all kinds and windows that slide over the padding."""
    model = model_in(tiny_models.save(tmp_path / kind, kind=kind, **changes))
    requests = mixed(model, 12)

    async def act(resources: SharedResources) -> tuple[list[Completion], list[Completion], list[int]]:
        provider = opened(model, resources)
        together = await asyncio.gather(*(provider.complete(request) for request in requests))
        alone = [await provider.complete(request) for request in requests[::-1]][::-1]
        return together, alone, provider.engine.batch_sizes

    together, alone, sizes = play(act)
    assert [each.text for each in together] == [each.text for each in alone]
    assert [each.usage for each in together] == [each.usage for each in alone]
    assert max(sizes) > 1
    assert sizes[-12:] == [1] * 12
    assert len({each.text for each in together}) > 6  # they do answer different things


@pytest.mark.parametrize("kind", ["Llama", "Mistral", "Bloom"])
def test_answers_are_those_of_transformers_also_of_prompts_that_are_read_in_pieces(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes: dict[str, Any] = {"sliding_window": 16} if kind == "Mistral" else {}
    folder = tiny_models.save(tmp_path / "m", kind=kind, **changes)
    requests = mixed(model_in(folder), 9)
    expected = [plain(folder, request) for request in requests]
    assert [each.text for each in answers(requests)] == expected
    monkeypatch.setattr(generation, "PREFILL_TOKENS", 40)  # a few tokens of each prompt at once, some of them padding
    read: list[int] = []
    real = generation._BatchState.step

    def watched(self: Any, ids: Any, mask: Any, positions: Any) -> Any:
        read.append(ids.numel())
        return real(self, ids, mask, positions)

    monkeypatch.setattr(generation._BatchState, "step", watched)
    assert [each.text for each in answers(requests)] == expected
    assert max(read) <= 40
    assert len([size for size in read if size > 20]) > 10


def test_models_that_remember_otherwise_are_asked_one_by_one(tmp_path: Path) -> None:
    shape: dict[str, Any] = {"hidden_size": 16, "state_size": 4, "num_hidden_layers": 1, "intermediate_size": 32}
    folder = tiny_models.save(tmp_path / "m", kind="Mamba", **shape)
    requests = [question(model_in(folder), text, max_tokens=4) for text in ("a", "a longer question", "why?")]
    assert [each.text for each in answers(requests)] == [plain(folder, request) for request in requests]


def test_stop_sequences(tiny: Path) -> None:
    model = model_in(tiny)
    (whole,) = answers([question(model, "What is it?", max_tokens=40)])
    assert whole.text is not None
    assert len(whole.text) > 12
    for start, end in ((5, 8), (0, 2)):
        stop = whole.text[start:end]
        (found,) = answers([question(model, "What is it?", max_tokens=40, stop=("never there", stop))])
        assert found.text == whole.text[: whole.text.find(stop)]
        assert found.finish_reason == "stop"
        assert found.usage.output < whole.usage.output


def test_the_end_of_a_turn_ends_the_answer(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the configuration does not name the mark by which the template ends turns."""
    end = transformers.AutoTokenizer.from_pretrained(tiny).convert_tokens_to_ids("<|im_end|>")
    assert transformers.AutoModelForCausalLM.from_pretrained(tiny).generation_config.eos_token_id != end
    monkeypatch.setattr(generation, "_next_tokens", lambda logits, rows, dice: [end] * len(rows))
    (found,) = answers([question(model_in(tiny), "Hello?")])
    assert (found.text, found.finish_reason, found.usage.output) == ("", "stop", 1)


def test_sampling_depends_on_the_request_alone(tiny: Path) -> None:
    def sampled(**parameters: Any) -> Request:
        return question(model_in(tiny, **parameters), "Why?", temperature=1.0)

    others = [question(model_in(tiny), f"Why {i}?", temperature=1.0) for i in range(5)]
    (alone,) = answers([sampled()])
    assert answers([*others, sampled()])[-1].text == alone.text
    samples = answers([replace(sampled(), sample=i) for i in range(6)])
    assert len({each.text for each in samples}) == 6
    assert samples[0].text == alone.text
    assert answers([sampled(seed=7)])[0].text != alone.text
    (greedy,) = answers([question(model_in(tiny), "Why?")])
    assert answers([sampled(top_k=1)])[0].text == answers([sampled(top_p=1e-9)])[0].text == greedy.text


def test_sampling_has_the_probabilities_of_the_model() -> None:
    logits = torch.tensor([[2.0, 1.0, 0.0, -1.0]])
    dice = [torch.Generator().manual_seed(0)]

    def drawn(n: int, **limits: Any) -> Any:
        rows = [generation.GenerationState(prompt=[1], limit=1, temperature=0.7, **limits)]
        tokens = [generation._next_tokens(logits, rows, dice)[0] for _ in range(n)]
        return torch.bincount(torch.tensor(tokens), minlength=4) / n

    expected = torch.softmax(logits[0] / 0.7, -1)
    assert ((drawn(20_000) - expected).abs() < 4 * (expected * (1 - expected) / 20_000).sqrt()).all()
    two = drawn(2000, top_p=0.8)  # the likeliest has 0.72: it and the next
    assert two[2:].sum() == 0
    assert (two[:2] > 0).all()


def test_thoughts_are_no_part_of_the_answer(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    thinks = tiny_models.save(tmp_path / "thinks", template=tiny_models.THINKS)

    def says(folder: Path, text: str, **changes: Any) -> Completion:
        def write(network: Any, batch: Sequence[generation.GenerationState], *, ended: Any, wanted: Any) -> None:
            for row in batch:
                row.written, row.text = list(range(10)), text
                row.finish = "stop" if "</think>" in text else "length"
                ended(row)

        monkeypatch.setattr(engines, "generate", write)
        asked = question(model_in(folder), "Why?", **changes)
        return separate_reasoning(answers([asked])[0], asked)

    assert says(tiny, "<think>A or B?</think>\n\nB").text == "B"
    # The template itself has begun the thoughts: only their end is in the answer. Other replies of judges may quote it.
    found = says(thinks, "A or B?</think>\n\nB", schema={"type": "object"})
    assert (found.text, 0 < found.usage.reasoning < found.usage.output == 10) == ("B", True)
    found = says(thinks, "A or B, or is it C, or")
    assert (found.failure and found.failure.code, found.finish_reason, found.usage.reasoning) == (
        "length",
        "length",
        10,
    )
    assert says(tiny, "B</think>", schema={"type": "object"}).text == "B</think>"


def test_an_answer_in_channels_is_the_last_of_them() -> None:
    """`<|end|>` ends a channel there, not the turn; the marks are special tokens and no part of a text."""
    template = "{% for m in messages %}<|start|>user<|channel|>final<|message|>{{ m['content'] }}<|end|>{% endfor %}"
    words = tiny_models.tokenizer(template + "<|start|>assistant{# ends with <|return|> #}")
    marks = ["<|channel|>", "<|message|>", "<|end|>", "<|start|>", "<|return|>"]
    words.add_special_tokens({"additional_special_tokens": marks})
    chat = ChatTemplate(words, {})
    assert chat.ends() == {words.get_added_vocab()["<|return|>"]}
    thought = "<|channel|>analysis<|message|>A or B?<|end|><|start|>assistant"
    for written, text in (
        (f"{thought}<|channel|>final<|message|>B", "<think>A or B?</think>B"),
        ("<|channel|>analysis<|message|>A or", "<think>A or"),
        ("B", "B"),
    ):
        assert chat.decode(chat.token_ids(written)) == text


# --- prompts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("template", [tiny_models.NO_SYSTEM, tiny_models.SILENT_SYSTEM])
def test_a_template_without_a_place_for_the_system_gets_it_in_the_first_question(template: str, tmp_path: Path) -> None:
    folder = tiny_models.save(tmp_path / "m", template=template)
    model = model_in(folder)
    notes: list[str] = []
    asked = question(model, "Why?", system="Be brief."), question(model, "Be brief.\n\nWhy?")
    with_system, by_hand = answers(asked, notes)
    assert (with_system.text, notes) == (by_hand.text, [])
    assert with_system.usage.input == by_hand.usage.input


def test_without_a_template_the_text_is_plain_and_that_is_said(base: Path) -> None:
    notes: list[str] = []
    model = model_in(base)
    found, joined = answers([question(model, "Why?", system="Be brief."), question(model, "Be brief.\n\nWhy?")], notes)
    assert found.text == joined.text
    assert found.usage.input == len("Be brief.\n\nWhy?")  # a token for each byte
    assert len(notes) == 1
    assert "has no chat template" in notes[0]


def test_a_prompt_that_does_not_fit_is_a_failure_of_that_request(tiny: Path) -> None:
    model = model_in(tiny)
    template = len("<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n") - 3 * len("<|im_start|>") + 3 + 2
    longest = 512 - 12 - template

    async def act(resources: SharedResources) -> list[Completion | BaseException]:
        provider = opened(model, resources)
        asked = [question(model, "x" * size) for size in (longest, longest + 1)]
        return await asyncio.gather(*map(provider.complete, asked), return_exceptions=True)

    fitting, over = play(act)
    assert isinstance(fitting, Completion)
    assert fitting.usage.input + fitting.usage.output == 512
    assert isinstance(over, ProviderError)
    assert (over.code, over.fatal, over.retryable) == ("context_length", False, False)
    assert "the prompt has 501 tokens and the completion may have 12; together the model can hold 512" in str(over)


# --- what cannot be used ----------------------------------------------------------------------------------------------


def spoil_config(folder: Path, **changes: Any) -> None:
    file = folder / "config.json"
    config = {**json.loads(file.read_text(encoding="utf-8")), **changes}
    file.write_text(json.dumps(config), encoding="utf-8")


def fatal(folder: Path) -> str:
    """The words of the error that ends all requests to a model."""
    with pytest.raises(ProviderError) as raised:
        answers([question(model_in(folder), "x"), question(model_in(folder), "y")])
    assert (raised.value.fatal, raised.value.code) == (True, "not_loaded")
    return str(raised.value)


def test_code_that_comes_with_a_model_is_not_run(tmp_path: Path) -> None:
    folder = tiny_models.save(tmp_path / "m")
    trap = tmp_path / "ran"
    (folder / "modeling_own.py").write_text(f"open({str(trap)!r}, 'w')\n", encoding="utf-8")
    names = {"AutoConfig": "modeling_own.Config", "AutoModelForCausalLM": "modeling_own.Model"}
    spoil_config(folder, model_type="own", auto_map=names)
    assert "it needs code from its own files, and such code is never executed" in fatal(folder)
    assert not trap.exists()


def test_weights_that_are_missing_are_not_made_up(tmp_path: Path) -> None:
    folder = tiny_models.save(tmp_path / "m")
    spoil_config(folder, num_hidden_layers=3)
    assert "weights are missing in its files: model.layers.2" in fatal(folder)
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[: len(content) // 2])
    assert "cannot be loaded" in fatal(folder)
