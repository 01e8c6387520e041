"""Models in this process, small ones made on the spot: what they answer, together and alone, and what they refuse."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
import weakref
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest
import tiny_models

from medhelm.domain import Completion, Message, Model, Prompt, Request
from medhelm.errors import MissingError, ProviderError, UserError
from medhelm.models.catalog import find_models
from medhelm.models.http import Gate, Http
from medhelm.models.providers import open_provider
from medhelm.models.providers.huggingface import HuggingFace
from medhelm.models.providers.local import engine as engines
from medhelm.models.providers.local import generation, loading
from medhelm.models.providers.local.chat import Chat
from medhelm.models.providers.local.machine import Machine
from medhelm.models.providers.local.memory import MOST_ON_PROCESSOR

torch = pytest.importorskip("torch", reason="torch comes with the extra hf")
transformers = pytest.importorskip("transformers", reason="transformers comes with the extra hf")

PATIENCE_S = 30.0
"""How long a test waits for something that must happen."""

WORDS = ["the", "patient", "was", "seen", "with", "chest pain", "and", "sent", "home", "after", "two", "hours"]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chat model."""
    return tiny_models.save(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same without a chat template."""
    return tiny_models.save(tmp_path_factory.mktemp("models") / "base", template=None)


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody opens a connection to anywhere else."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        assert self.family == socket.AF_UNIX or address[0] in ("127.0.0.1", "::1"), f"a connection to {address}"
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)


def model_in(folder: Path, **parameters: Any) -> Model:
    (model,) = find_models([f"hf/{folder}"], file=None, environment={})
    return Model(
        name=model.name,
        provider="hf",
        remote_name=model.remote_name,
        window=model.window,
        parameters={**model.parameters, **parameters},
    )


def play(act: Callable[[Machine], Coroutine[Any, Any, Any]], notes: list[str] | None = None) -> Any:
    async def run() -> Any:
        machine = Machine(notes.append if notes is not None else None)
        try:
            return await act(machine)
        finally:
            await machine.close()

    return asyncio.run(run())


def opened(model: Model, machine: Machine, **environment: str) -> HuggingFace:
    http = Http(Gate(offline=True))
    provider = open_provider(model, http, environment={"MEDHELM_HF_DEVICE": "cpu", **environment}, machine=machine)
    assert isinstance(provider, HuggingFace)
    return provider


def question(model: Model, text: str, *, max_tokens: int = 12, system: str = "", **changes: Any) -> Request:
    messages = (Message("system", system),) if system else ()
    return Request(model=model, prompt=Prompt((*messages, Message("user", text))), max_tokens=max_tokens, **changes)


def answers(requests: Sequence[Request], notes: list[str] | None = None) -> list[Completion]:
    """All at once."""

    async def act(machine: Machine) -> list[Completion]:
        provider = opened(requests[0].model, machine)
        return await asyncio.gather(*(provider.complete(request) for request in requests))

    found: list[Completion] = play(act, notes)
    return found


def mixed(model: Model, n: int) -> list[Request]:
    """Questions of all lengths, with limits of all sizes."""
    return [
        question(model, " ".join(WORDS[i % 5 :] * (1 + i % 4)) + f" {i}?", max_tokens=3 + (7 * i) % 40, system="Brief.")
        for i in range(n)
    ]


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

    async def act(machine: Machine) -> tuple[list[Completion], list[Completion], list[int]]:
        provider = opened(model, machine)
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
    monkeypatch.setattr(generation, "PIECE", 40)  # of several prompts some tokens each, of which some are padding
    read: list[int] = []
    real = generation._Reading.more

    def watched(self: Any, ids: Any, mask: Any, positions: Any) -> Any:
        read.append(ids.numel())
        return real(self, ids, mask, positions)

    monkeypatch.setattr(generation._Reading, "more", watched)
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
    machine = Machine()

    async def act() -> Completion:
        provider = opened(request.model, machine)
        loaded = loading.load(provider.weights, device="cpu")
        loaded.network.model.lm_head = network.lm_head
        provider.engine._load = lambda: loaded
        found = await provider.complete(request)
        await machine.close()
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
    rows = [generation.Answering(prompt=[1], limit=1, temperature=0.7)]
    dice = [torch.Generator().manual_seed(0)]
    n = 20_000
    drawn = torch.bincount(torch.tensor([generation._choose(logits, rows, dice)[0] for _ in range(n)]), minlength=4)
    expected = torch.softmax(logits[0] / 0.7, -1)
    assert ((drawn / n - expected).abs() < 4 * (expected * (1 - expected) / n).sqrt()).all()
    rows[0].top_p = 0.8  # the likeliest has 0.72: it and the next
    two = torch.bincount(torch.tensor([generation._choose(logits, rows, dice)[0] for _ in range(2000)]), minlength=4)
    assert two[2:].sum() == 0
    assert (two[:2] > 0).all()


def test_thoughts_are_no_part_of_the_answer(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    thinks = tiny_models.save(tmp_path / "thinks", template=tiny_models.THINKS)

    def says(folder: Path, text: str, **changes: Any) -> Completion:
        def write(
            network: Any, batch: Sequence[generation.Answering], *, ended: Callable[..., object], wanted: Any
        ) -> None:
            for row in batch:
                row.written, row.text = list(range(10)), text
                row.finish = "stop" if "</think>" in text else "length"
                ended(row)

        monkeypatch.setattr(engines, "answer", write)
        return answers([question(model_in(folder), "Why?", **changes)])[0]

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

    def chat(template: str) -> Chat:
        words = tiny_models.tokenizer(template)
        words.add_special_tokens({"additional_special_tokens": marks})
        return Chat(words, {})

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
    assert "comes without a chat template" in notes[0]


def test_a_chat_model_says_nothing_of_templates(tiny: Path) -> None:
    notes: list[str] = []
    answers([question(model_in(tiny), "Why?")], notes)
    assert notes == []


def test_a_template_that_refuses_is_a_failure_of_that_request(tmp_path: Path) -> None:
    template = "{% if messages | length > 1 %}{{ raise_exception('one turn only') }}{% endif %}" + tiny_models.NO_SYSTEM
    model = model_in(tiny_models.save(tmp_path / "m", template=template))
    turns = Prompt((Message("user", "a"), Message("assistant", "b"), Message("user", "c")))

    async def act(machine: Machine) -> list[Completion | BaseException]:
        provider = opened(model, machine)
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

    async def act(machine: Machine) -> list[Completion | BaseException]:
        provider = opened(model, machine)
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
    assert "the prompt has 501 tokens and its answer may have 12; together the model can hold 512" in str(over)


def test_a_smaller_window_of_models_yaml_counts(tiny: Path) -> None:
    model = model_in(tiny)
    small = Model(name="s", provider="hf", remote_name=model.remote_name, window=40)
    with pytest.raises(ProviderError, match="together the model can hold 40"):
        answers([question(small, "x" * 30)])


# --- batches and threads ----------------------------------------------------------------------------------------------


def test_memory_that_runs_out_halves_the_batch_and_goes_on(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_in(tiny)
    requests = [question(model, f"number {i}?", max_tokens=8) for i in range(12)]
    expected = [each.text for each in answers(requests)]
    real, tried = generation._padded, []

    def short(rows: Sequence[generation.Answering], *more: Any) -> Any:
        tried.append(len(rows))
        if len(rows) > 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return real(rows, *more)

    monkeypatch.setattr(generation, "_padded", short)

    async def act(machine: Machine) -> list[Completion]:
        provider = opened(model, machine)
        first = await asyncio.gather(*(provider.complete(request) for request in requests))
        tried.append(0)
        second = await asyncio.gather(*(provider.complete(request) for request in requests))
        assert [each.text for each in second] == expected
        return first

    assert [each.text for each in play(act)] == expected
    assert tried[: tried.index(0)] == [12, 6, 3, 3, 6, 3, 3]
    assert max(tried[tried.index(0) :]) == 3  # it has learned


def test_one_request_that_needs_too_much_fails_alone(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_in(tiny)
    real = generation._padded

    def short(rows: Sequence[generation.Answering], *more: Any) -> Any:
        if max(len(row.prompt) for row in rows) > 200:
            raise RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes")
        return real(rows, *more)

    monkeypatch.setattr(generation, "_padded", short)

    async def act(machine: Machine) -> list[Completion | BaseException]:
        provider = opened(model, machine)
        texts = ("a", "b" * 300, "c")
        return await asyncio.gather(*(provider.complete(question(model, t)) for t in texts), return_exceptions=True)

    first, large, last = play(act)
    assert isinstance(large, ProviderError)
    assert (large.code, large.fatal) == ("out_of_memory", False)
    assert isinstance(first, Completion)
    assert isinstance(last, Completion)


def test_a_computation_that_breaks_does_not_take_the_thread_with_it(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = model_in(tiny)
    real, calls = generation._padded, iter([True])

    def once(*arguments: Any) -> Any:
        if next(calls, False):
            raise RuntimeError("shapes do not match")
        return real(*arguments)

    monkeypatch.setattr(generation, "_padded", once)

    async def act(machine: Machine) -> Completion:
        provider = opened(model, machine)
        with pytest.raises(ProviderError, match="RuntimeError: shapes do not match") as raised:
            await provider.complete(question(model, "x"))
        assert raised.value.code == "broken"
        return await provider.complete(question(model, "x"))

    assert play(act).text


def test_two_names_for_one_model_load_it_once(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[str] = []
    real = loading.load

    def counted(weights: Any, **settings: Any) -> loading.Loaded:
        loads.append(weights.name)
        return real(weights, **settings)

    monkeypatch.setattr(loading, "load", counted)

    async def act(machine: Machine) -> None:
        model = model_in(tiny)
        judge = Model(name="judge", provider="hf", remote_name=model.remote_name)
        one, two = opened(model, machine), opened(judge, machine)
        assert one.endpoint == two.endpoint
        await asyncio.gather(one.complete(question(model, "a")), two.complete(question(judge, "b")))

    play(act)
    assert len(loads) == 1


def test_models_that_do_not_fit_together_are_loaded_in_turns(
    tiny: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each answers as by itself: memory that holds one of them holds one after the other."""
    one, two = model_in(tiny), model_in(base)
    alone = {model.name: answers([question(model, text) for text in "abc"]) for model in (one, two)}
    held: list[weakref.ref[Any]] = []
    most: list[int] = []
    real = loading.load

    def narrow(weights: Any, **settings: Any) -> loading.Loaded:
        if any(network() is not None for network in held):
            raise ProviderError("out_of_memory", "there is room for one", fatal=True)
        loaded = real(weights, **settings)
        held.append(weakref.ref(loaded.network.model))
        most.append(sum(network() is not None for network in held))
        return loaded

    monkeypatch.setattr(loading, "load", narrow)
    notes: list[str] = []

    async def act(machine: Machine) -> None:
        providers = {model.name: opened(model, machine) for model in (one, two)}
        for number, text in enumerate("abc"):  # in turns
            for name, provider in providers.items():
                found = await provider.complete(question(provider.model, text))
                assert found.text == alone[name][number].text

    play(act, notes)
    assert len(held) == 6
    assert max(most) == 1
    assert sum("are loaded in turns" in note for note in notes) == 2  # each says it once


def test_a_model_that_cannot_be_loaded_is_not_tried_again(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def fails(weights: Any, **settings: Any) -> loading.Loaded:
        tried.append(weights.name)
        raise ProviderError("out_of_memory", "too large", fatal=True)

    monkeypatch.setattr(loading, "load", fails)

    async def act(machine: Machine) -> None:
        provider = opened(model_in(tiny), machine)
        for _ in range(3):
            with pytest.raises(ProviderError, match="too large"):
                await provider.complete(question(provider.model, "a"))

    play(act)
    assert len(tried) == 1


def test_a_model_that_is_larger_than_the_memory_is_not_loaded(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that runs out of memory would end the process without a word."""
    size = sum(parameter.numel() for parameter in transformers.AutoModelForCausalLM.from_pretrained(tiny).parameters())
    weights = opened(model_in(tiny), Machine()).weights
    monkeypatch.setattr(loading, "free_bytes", lambda device: 4 * size - 1)
    with pytest.raises(ProviderError) as raised:
        loading.load(weights, device="cpu")
    assert (raised.value.code, raised.value.fatal) == ("out_of_memory", True)
    assert "in float32, and cpu has" in str(raised.value)
    assert "models.yaml: `parameters: {dtype: bfloat16}`" in str(raised.value)
    assert loading.load(weights, device="cpu", dtype="bfloat16").dtype == "bfloat16"
    for free in (4 * size, None):
        monkeypatch.setattr(loading, "free_bytes", lambda device, free=free: free)
        assert loading.load(weights, device="cpu").dtype == "float32"


def test_small_steps_take_one_thread_and_the_number_comes_back(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, used = torch.get_num_threads(), []
    real = generation._choose

    def watched(*arguments: Any) -> list[int]:
        used.append(torch.get_num_threads())
        return real(*arguments)

    monkeypatch.setattr(generation, "_choose", watched)
    monkeypatch.setattr(generation, "as_many_as_before", lambda: contextlib.nullcontext(8))
    answers([question(model_in(tiny), "x", max_tokens=4)])
    torch.set_num_threads(before)
    assert used == [1, 1, 1, 1]


def test_nothing_is_loaded_before_the_first_request_and_no_thread_is_left(tiny: Path) -> None:
    before = threading.active_count()

    async def act(machine: Machine) -> None:
        model = model_in(tiny)
        provider = opened(model, machine)
        assert threading.active_count() == before
        await provider.complete(question(model, "a"))
        assert any(thread.name == "hf" for thread in threading.enumerate())

    play(act)
    assert not any(thread.name == "hf" for thread in threading.enumerate())


def test_who_gives_up_leaves_the_batch_and_the_end_waits_for_one_token(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = model_in(tiny)
    steps: list[int] = []
    arrived, go_on = threading.Semaphore(0), threading.Semaphore(0)
    real = generation._choose

    def watched(logits: Any, rows: Any, dice: Any) -> list[int]:
        steps.append(len(rows))
        arrived.release()
        assert go_on.acquire(timeout=PATIENCE_S)
        return real(logits, rows, dice)

    monkeypatch.setattr(generation, "_choose", watched)

    async def act(machine: Machine) -> None:
        provider = opened(model, machine)
        asking = [asyncio.ensure_future(provider.complete(question(model, t, max_tokens=400))) for t in "abc"]
        assert await asyncio.to_thread(arrived.acquire, timeout=PATIENCE_S)
        for task in asking[:2]:
            task.cancel()
        await asyncio.wait(asking[:2])
        go_on.release()  # the first token
        assert await asyncio.to_thread(arrived.acquire, timeout=PATIENCE_S)
        closing = asyncio.ensure_future(machine.close())
        await asyncio.sleep(0)
        go_on.release()  # the second
        await asyncio.wait_for(closing, PATIENCE_S)
        with pytest.raises(ProviderError, match="closed"):
            await asyncio.wait_for(asking[2], PATIENCE_S)
        with pytest.raises(ProviderError, match="closed"):
            await provider.complete(question(model, "d"))

    play(act)
    assert steps == [3, 1]


# --- what cannot be used ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"temprature": 1}, "`temprature` is not known. Known: chat_template_kwargs, dtype, seed, top_k, top_p."),
        ({"dtype": "int8"}, "`dtype` must be one of float32, bfloat16, float16."),
        ({"top_p": 0}, "`top_p` must be a number above 0 and up to 1."),
        ({"top_k": -1}, "`top_k` must be a whole number from 0."),
        ({"seed": True}, "`seed` must be a whole number."),
        ({"chat_template_kwargs": []}, "`chat_template_kwargs` must be an object."),
    ],
)
def test_parameters_are_checked(tiny: Path, parameters: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as raised:
        answers([question(model_in(tiny, **parameters), "x")])
    assert said in str(raised.value)


def test_a_type_of_numbers_can_be_chosen(tiny: Path) -> None:
    weights = opened(model_in(tiny), Machine()).weights
    loaded = loading.load(weights, device="cpu")
    assert loaded.dtype == "float32"
    assert loaded.batch_tokens <= MOST_ON_PROCESSOR
    assert loading.load(weights, device="cpu", dtype="bfloat16").dtype == "bfloat16"


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
    assert "program code that came with its files, which is never run here" in fatal(folder)
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
    async def act(machine: Machine) -> None:
        provider = opened(model_in(tiny), machine, MEDHELM_HF_DEVICE="cuda:77")
        await provider.complete(question(provider.model, "x"))

    with pytest.raises(ProviderError, match="cannot be loaded") as raised:
        play(act)
    assert raised.value.fatal


def test_packages_that_are_missing_are_named(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "find_spec", lambda name: None)
    with pytest.raises(MissingError, match=r"hf/ needs torch and transformers: pip install .*\[hf\]"):
        opened(model_in(tiny), Machine())
