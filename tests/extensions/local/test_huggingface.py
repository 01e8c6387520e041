"""Models in this process, small ones made on the spot: what they answer, together and alone, and what they refuse."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import Completion, Message, Model, Prompt, Request
from medhelm.domain.completion import strip_reasoning
from medhelm.errors import MissingError, ProviderError, UserError
from medhelm.extensions.local import generation, loading
from medhelm.extensions.local import huggingface as engines
from medhelm.extensions.local.loading import MOST_TOKENS_ON_CPU, ChatTemplate
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


def test_answers_are_those_of_transformers(tiny: Path) -> None:
    requests = mixed(model_in(tiny), 8)
    assert [each.text for each in answers(requests)] == [plain(tiny, request) for request in requests]


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("Llama", {}),
        ("Mistral", {"sliding_window": 16}),
        ("Gemma2", {"sliding_window": 16, "head_dim": 8}),
        ("Qwen3", {"head_dim": 8}),
        ("GPT2", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 512}),
        ("Bloom", {}),
        ("OPT", {"ffn_dim": 48, "word_embed_proj_dim": 32}),
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
def test_prompts_that_are_read_in_pieces_are_answered_the_same(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes: dict[str, Any] = {"sliding_window": 16} if kind == "Mistral" else {}
    folder = tiny_models.save(tmp_path / "m", kind=kind, **changes)
    requests = mixed(model_in(folder), 9)
    expected = [plain(folder, request) for request in requests]
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


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("Mamba", {"hidden_size": 16, "state_size": 4, "num_hidden_layers": 1, "intermediate_size": 32}),
        ("RecurrentGemma", {"lru_width": 32, "attention_window_size": 16, "num_hidden_layers": 3}),
    ],
)
def test_models_that_remember_otherwise_are_asked_one_by_one(
    kind: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    folder = tiny_models.save(tmp_path / "m", kind=kind, **changes)
    model = model_in(folder)
    assert model.window == (None if kind == "Mamba" else 512)
    requests = [question(model, text, max_tokens=4) for text in ("a", "a longer question", "why?")]
    found = answers(requests)
    assert [each.text for each in found] == [plain(folder, request) for request in requests]
    assert [each.usage.output for each in found] == [4, 4, 4] or any(each.finish_reason == "stop" for each in found)


def test_limits_and_counts(tiny: Path) -> None:
    model = model_in(tiny)
    words = tiny_models.tokenizer()
    requests = [question(model, "How?", max_tokens=n) for n in (1, 2, 9)]
    for request, found in zip(requests, answers(requests), strict=True):
        assert (found.finish_reason, found.usage.output) == ("length", request.max_tokens)
        turns = [{"role": "user", "content": "How?"}]
        assert found.usage.input == len(words.apply_chat_template(turns, add_generation_prompt=True)["input_ids"])
        assert found.latency_s > 0
        assert found.reported_model.startswith("tiny@")


def test_stop_sequences(tiny: Path) -> None:
    model = model_in(tiny)
    (whole,) = answers([question(model, "What is it?", max_tokens=40)])
    assert whole.text is not None
    assert len(whole.text) > 12
    for start, end in ((3, 4), (5, 8), (0, 2)):
        stop = whole.text[start:end]
        (found,) = answers([question(model, "What is it?", max_tokens=40, stop=("never there", stop))])
        assert found.text == whole.text[: whole.text.find(stop)]
        assert found.finish_reason == "stop"
        assert found.usage.output < whole.usage.output


def test_the_end_of_a_turn_ends_the_answer(tmp_path: Path) -> None:
    """Also where the configuration does not name the mark by which the template ends turns."""
    folder = tiny_models.save(tmp_path / "m")
    network = transformers.AutoModelForCausalLM.from_pretrained(folder)
    words = transformers.AutoTokenizer.from_pretrained(folder)
    end = words.convert_tokens_to_ids("<|im_end|>")
    with torch.no_grad():
        network.lm_head.weight.zero_()
        network.model.norm.weight.fill_(1.0)
        network.lm_head.weight[end] = network.model.embed_tokens.weight.mean(0) * 0  # all logits equal but one
        network.lm_head.bias = torch.nn.Parameter(torch.nn.functional.one_hot(torch.tensor(end), len(words)).float())
    request = question(model_in(folder), "Hello?")
    resources = SharedResources()

    async def act() -> Completion:
        provider = opened(request.model, resources)
        loaded = loading.load(provider.weights, device="cpu")
        loaded.network.model.lm_head = network.lm_head
        provider.engine._load = lambda: loaded
        found = await provider.complete(request)
        await resources.close()
        return found

    found = asyncio.run(act())
    assert (found.text, found.finish_reason, found.usage.output) == ("", "stop", 1)
    assert network.generation_config.eos_token_id == 0


def test_sampling_depends_on_the_request_alone(tiny: Path) -> None:
    model = model_in(tiny)
    request = question(model, "Why?", temperature=1.0)
    others = [question(model, f"Why {i}?", temperature=1.0) for i in range(5)]
    (alone,) = answers([request])
    with_others = answers([*others, request])[-1]
    assert alone.text == with_others.text
    samples = answers([question(model, "Why?", temperature=1.0, sample=i) for i in range(6)])
    assert len({each.text for each in samples}) == 6
    assert samples[0].text == alone.text
    (other_seed,) = answers([question(model_in(tiny, seed=7), "Why?", temperature=1.0)])
    assert other_seed.text != alone.text
    greedy, narrow = answers([question(model, "Why?"), question(model_in(tiny, top_k=1), "Why?", temperature=1.0)])
    assert greedy.text == narrow.text
    (nucleus,) = answers([question(model_in(tiny, top_p=1e-9), "Why?", temperature=1.0)])
    assert nucleus.text == greedy.text


def test_sampling_has_the_probabilities_of_the_model() -> None:
    logits = torch.tensor([[2.0, 1.0, 0.0, -1.0]])
    rows = [generation.GenerationState(prompt=[1], limit=1, temperature=0.7)]
    dice = [torch.Generator().manual_seed(0)]
    n = 20_000
    drawn = torch.bincount(
        torch.tensor([generation._next_tokens(logits, rows, dice)[0] for _ in range(n)]), minlength=4
    )
    expected = torch.softmax(logits[0] / 0.7, -1)
    assert ((drawn / n - expected).abs() < 4 * (expected * (1 - expected) / n).sqrt()).all()
    rows[0].top_p = 0.8  # the likeliest has 0.72: it and the next
    two = torch.bincount(
        torch.tensor([generation._next_tokens(logits, rows, dice)[0] for _ in range(2000)]), minlength=4
    )
    assert two[2:].sum() == 0
    assert (two[:2] > 0).all()


def test_thoughts_are_no_part_of_the_answer(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    thinks = tiny_models.save(tmp_path / "thinks", template=tiny_models.THINKS)

    def says(folder: Path, text: str, **changes: Any) -> Completion:
        def write(
            network: Any, batch: Sequence[generation.GenerationState], *, ended: Callable[..., object], wanted: Any
        ) -> None:
            for row in batch:
                row.written, row.text = list(range(10)), text
                row.finish = "stop" if "</think>" in text else "length"
                ended(row)

        monkeypatch.setattr(engines, "generate", write)
        asked = question(model_in(folder), "Why?", **changes)
        return separate_reasoning(answers([asked])[0], asked)

    assert says(tiny, "<think>A or B?</think>\n\nB").text == "B"
    # The template itself has begun the thoughts: only their end is in the answer, also of judges, whose replies may
    # quote such an end.
    found = says(thinks, "A or B?</think>\n\nB", schema={"type": "object"})
    assert found.text == "B"
    assert 0 < found.usage.reasoning < found.usage.output == 10
    found = says(thinks, "A or B, or is it C, or")
    assert found.failure is not None
    assert (found.failure.code, found.finish_reason) == ("length", "length")
    assert found.usage.reasoning == 10
    assert says(tiny, "B</think>", schema={"type": "object"}).text == "B</think>"


def test_an_answer_in_channels_is_the_last_of_them(tiny: Path, tmp_path: Path) -> None:
    """`<|end|>` ends a channel there, not the turn; the marks are special tokens and no part of a text."""
    marks = ["<|channel|>", "<|message|>", "<|end|>", "<|start|>", "<|return|>"]
    template = "{% for m in messages %}<|start|>user<|channel|>final<|message|>{{ m['content'] }}<|end|>{% endfor %}"

    def chat(template: str) -> ChatTemplate:
        words = tiny_models.tokenizer(template)
        words.add_special_tokens({"additional_special_tokens": marks})
        return ChatTemplate(words, {})

    ours = chat(template + "<|start|>assistant{# ends with <|return|> #}")
    known = ours._tokenizer.get_added_vocab()
    assert ours.ends() == {known["<|return|>"]}
    assert chat("{{ messages[0]['content'] }}<|end|>").ends() == {known["<|end|>"]}
    for written, text in (
        (
            "<|channel|>analysis<|message|>A or B?<|end|><|start|>assistant<|channel|>final<|message|>B",
            "<think>A or B?</think>B",
        ),
        ("<|channel|>analysis<|message|>A or", "<think>A or"),
        ("<|channel|>final<|message|>B", "B"),
        ("B", "B"),
    ):
        assert ours.decode(ours.token_ids(written)) == text


def test_markers_of_reasoning_that_are_special_tokens_stay() -> None:
    """As Magistral's [THINK]; other special tokens are no part of a text."""
    words = tiny_models.tokenizer("{{ messages[0]['content'] }}")
    words.add_special_tokens({"additional_special_tokens": ["[THINK]", "[/THINK]", "</s>"]})
    chat = ChatTemplate(words, {})
    assert strip_reasoning(chat.decode(chat.token_ids("[THINK]A or B?[/THINK]B</s>"))) == "B"
    assert "</s>" not in chat.decode(chat.token_ids("[THINK]A or B?[/THINK]B</s>"))


# --- prompts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("template", [tiny_models.NO_SYSTEM, tiny_models.SILENT_SYSTEM])
def test_a_template_without_a_place_for_the_system_gets_it_in_the_first_question(template: str, tmp_path: Path) -> None:
    folder = tiny_models.save(tmp_path / "m", template=template)
    model = model_in(folder)
    with_system, by_hand = answers([question(model, "Why?", system="Be brief."), question(model, "Be brief.\n\nWhy?")])
    assert with_system.text == by_hand.text
    assert with_system.usage.input == by_hand.usage.input


def test_without_a_template_the_text_is_plain_and_that_is_said(base: Path) -> None:
    notes: list[str] = []
    model = model_in(base)
    found, joined = answers([question(model, "Why?", system="Be brief."), question(model, "Be brief.\n\nWhy?")], notes)
    assert found.text == joined.text
    assert found.usage.input == len("Be brief.\n\nWhy?")  # a token for each byte
    assert len(notes) == 1
    assert "has no chat template" in notes[0]


def test_a_chat_model_says_nothing_of_templates(tiny: Path) -> None:
    notes: list[str] = []
    answers([question(model_in(tiny), "Why?")], notes)
    assert notes == []


def test_a_template_that_refuses_is_a_failure_of_that_request(tmp_path: Path) -> None:
    template = "{% if messages | length > 1 %}{{ raise_exception('one turn only') }}{% endif %}" + tiny_models.NO_SYSTEM
    model = model_in(tiny_models.save(tmp_path / "m", template=template))
    turns = Prompt((Message("user", "a"), Message("assistant", "b"), Message("user", "c")))

    async def act(resources: SharedResources) -> list[Completion | BaseException]:
        provider = opened(model, resources)
        several = (Request(model=model, prompt=turns, max_tokens=3), question(model, "fine", max_tokens=3))
        return await asyncio.gather(*map(provider.complete, several), return_exceptions=True)

    refused, fine = play(act)
    assert isinstance(refused, ProviderError)
    assert (refused.code, refused.fatal) == ("bad_request", False)
    assert "one turn only" in str(refused)
    assert isinstance(fine, Completion)


def test_options_reach_the_template(tmp_path: Path) -> None:
    template = "{% if shout %}LOUD {% endif %}" + tiny_models.CHATML
    model = model_in(tiny_models.save(tmp_path / "m", template=template))
    loud = Model(
        name="loud",
        provider="hf",
        remote_name=model.remote_name,
        parameters={"chat_template_kwargs": {"shout": True}},
    )
    (quiet,), (told,) = answers([question(model, "x")]), answers([question(loud, "x")])
    assert told.usage.input == quiet.usage.input + len("LOUD ")


def test_a_prompt_that_does_not_fit_is_a_failure_of_that_request(tiny: Path) -> None:
    model = model_in(tiny)
    assert model.window == 512
    template = len("<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n") - 3 * len("<|im_start|>") + 3 + 2

    async def act(resources: SharedResources) -> list[Completion | BaseException]:
        provider = opened(model, resources)
        sizes = (500, 512 - 12 - template, 512 - 12 - template + 1)
        return await asyncio.gather(
            *(provider.complete(question(model, "x" * size)) for size in sizes), return_exceptions=True
        )

    long, fitting, over = play(act)
    assert isinstance(fitting, Completion)
    assert fitting.usage.input + fitting.usage.output == 512
    for error in (long, over):
        assert isinstance(error, ProviderError)
        assert (error.code, error.fatal, error.retryable) == ("context_length", False, False)
    assert "the prompt has 501 tokens and the completion may have 12; together the model can hold 512" in str(over)


def test_a_smaller_window_of_models_yaml_counts(tiny: Path) -> None:
    model = model_in(tiny)
    small = Model(name="s", provider="hf", remote_name=model.remote_name, window=40)
    with pytest.raises(ProviderError, match="together the model can hold 40"):
        answers([question(small, "x" * 30)])


# --- what cannot be used ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"temprature": 1}, "`temprature` is unknown. Known: chat_template_kwargs, dtype, seed, top_k, top_p."),
        ({"dtype": "int8"}, "`dtype`: Input should be 'float32', 'bfloat16' or 'float16'."),
        ({"top_p": 0}, "`top_p`: Input should be greater than 0."),
        ({"top_k": -1}, "`top_k`: Input should be greater than or equal to 0."),
        ({"seed": True}, "`seed`: Input should be a valid integer."),
        ({"chat_template_kwargs": []}, "`chat_template_kwargs`: Input should be a valid dictionary."),
    ],
)
def test_parameters_are_checked(tiny: Path, parameters: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as raised:
        answers([question(model_in(tiny, **parameters), "x")])
    assert said in str(raised.value)


def test_a_type_of_numbers_can_be_chosen(tiny: Path) -> None:
    weights = opened(model_in(tiny), SharedResources()).weights
    loaded = loading.load(weights, device="cpu")
    assert loaded.network.model.dtype == torch.float32
    assert loaded.batch_tokens <= MOST_TOKENS_ON_CPU
    assert loading.load(weights, device="cpu", dtype="bfloat16").network.model.dtype == torch.bfloat16


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


def test_weights_that_are_broken(tmp_path: Path) -> None:
    folder = tiny_models.save(tmp_path / "m")
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[: len(content) // 2])
    assert "cannot be loaded" in fatal(folder)


def test_a_device_that_is_not_there(tiny: Path) -> None:
    async def act(resources: SharedResources) -> None:
        provider = opened(model_in(tiny), resources, MEDHELM_HF_DEVICE="cuda:77")
        await provider.complete(question(provider.model, "x"))

    with pytest.raises(ProviderError, match="cannot be loaded") as raised:
        play(act)
    assert raised.value.fatal


def test_packages_that_are_missing_are_named(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "find_spec", lambda name: None)
    with pytest.raises(MissingError, match=r"hf/ needs torch and transformers: pip install .*\[hf\]"):
        opened(model_in(tiny), SharedResources())
