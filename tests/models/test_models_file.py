"""models.yaml: everything it may say, and everything that can be wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from medhelm.domain import Price
from medhelm.errors import ConfigError
from medhelm.models.models_file import read_definitions


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where the test puts its text."""
    return tmp_path / "models.yaml"


def problems(file: Path, text: str) -> list[tuple[int | None, str]]:
    """Line and words of everything wrong with a file."""
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        read_definitions(file)
    assert str(raised.value).startswith((f"{file} has {len(raised.value.problems)} problem", f"{file}: "))
    return [(problem.line, problem.text) for problem in raised.value.problems]


def test_everything_can_be_said(file: Path) -> None:
    file.write_text(
        """\
local/qwen2.5:
  provider: openai
  model: Qwen/Qwen2.5-7B-Instruct
  base_url: http://gpu.hospital.org:8000/v1/
  insecure: true
  key: WARD_7_KEY
  price: {input: 0, output: 1.5, cached_input: 0.25}
  window: 32768
  reasoning: true
  reasoning_effort: none
  max_tokens: 2000
  max_concurrency: 8
  structured: false
  parameters: {temperature: 0.6, stop: null, chat_template_kwargs: {enable_thinking: false}}
plain: {}
""",
        encoding="utf-8",
    )
    definitions = read_definitions(file)
    assert list(definitions) == ["local/qwen2.5", "plain"]
    full = definitions["local/qwen2.5"]
    assert full.base_url == "http://gpu.hospital.org:8000/v1"
    assert full.price is not None
    assert full.price.price("models.yaml") == Price(input=0.0, output=1.5, cached_input=0.25, source="models.yaml")
    assert (full.window, full.max_tokens, full.max_concurrency) == (32768, 2000, 8)
    assert (full.reasoning, full.reasoning_effort, full.key) == (True, "none", "WARD_7_KEY")
    assert not full.structured
    assert full.parameters == {"temperature": 0.6, "stop": None, "chat_template_kwargs": {"enable_thinking": False}}
    plain = definitions["plain"]
    assert (plain.provider, plain.model, plain.reasoning, plain.price) == ("openai", "", None, None)
    assert plain.structured


def test_all_problems_are_told_at_once_with_their_lines(file: Path) -> None:
    text = """\
qwen:
  base_ulr: http://127.0.0.1:8000/v1
  provider: opena
  window: 0
  price: {input: -1}
other:
  reasoning: yes
  max_tokens: many
"""
    found = problems(file, text)
    assert [line for line, _ in found] == [2, 3, 4, 5, 5, 7, 8]
    words = "\n".join(text for _, text in found)
    assert "qwen.base_ulr: unknown key. Did you mean `base_url`?" in words
    assert "qwen.provider: `opena` is none of the possible values. Did you mean `openai`?" in words
    assert "qwen.window: must be more than 0" in words
    assert "qwen.price.input: must be at least 0" in words
    assert "qwen.price.output: missing" in words
    assert "other.reasoning: must be true or false, is `yes`" in words
    assert "other.max_tokens: must be a whole number, is `many`" in words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- a\n- b\n", "the top of the file must map names to models"),
        ("qwen: http://127.0.0.1\n", "qwen: must be a mapping of keys to values, such as {base_url: http...}"),
        ("models:\n  qwen: {model: a}\n", "names belong at the top level"),
        ("qwen:\n\tmodel: a\n", "Indent with spaces, not tabs."),
        ("? [a, b]\n: {model: a}\n", "a key must be a text"),
        ("'': {model: a}\n", "a name must be one line of text"),
        ('"a\\nb": {model: a}\n', "a name must be one line of text"),
        ("baseline/majority: {model: a}\n", "baseline/majority: this name is reserved"),
        ("qwen: {reasoning_effort: hihg}\n", "`hihg` is not a known effort. Did you mean `high`?"),
        ("qwen: {window: 4000, max_tokens: 4000}\n", "leaves no room for a prompt"),
        ("qwen: {price: {input: 0.0000025, output: 1}}\n", "looks like a price for one token"),
        ("qwen: {price: {input: $2, output: 1}}\n", "no signs such as $ or %"),
        ("qwen: {parameters: {top_p: 1e999}}\n", "a number in it is too large to send"),
        ("qwen: {model: 7}\n", "qwen.model: must be text"),
        ("qwen: {model: a}\nqwen: {model: b}\n", "appears twice"),
        ("qwen: {parameters: [1]}\n", "qwen.parameters: must be a mapping"),
        ("qwen: {parameters: {messages: []}}\n", "`messages` is set by medhelm"),
        ("qwen: {parameters: {systemInstruction: x}}\n", "`systemInstruction` is set by medhelm"),
        ("qwen: {base_url: 'https://x.openai.azure.com?api-version=1'}\n", "belongs to `provider: azure`"),
        ("qwen: {base_url: 'https://me:secret@gw.org/v1'}\n", "not contain a user name or password"),
    ],
)
def test_each_mistake_has_its_words(file: Path, text: str, words: str) -> None:
    assert words in "\n".join(said for _, said in problems(file, text))


def test_what_stands_twice_hides_nothing_else(file: Path) -> None:
    text = "a: {modle: x}\nb: {window: 0}\na: {model: y}\nc: &c {model: z}\n"
    found = problems(file, text)
    assert [line for line, _ in found] == [1, 2, 3]
    assert [said.partition(":")[0] for _, said in found] == ["a.modle", "b.window", "a"]


@pytest.mark.parametrize("text", ["\N{ZERO WIDTH NO-BREAK SPACE}a:\n  model: x\n", "a:\r\n  model: x\r\n"])
def test_files_of_all_editors_are_read(file: Path, text: str) -> None:
    file.write_bytes(text.encode())
    assert read_definitions(file)["a"].model == "x"
    file.write_text("# nothing yet\n", encoding="utf-8")
    assert read_definitions(file) == {}


@pytest.mark.parametrize(
    "secret",
    [
        *("sk-proj-hunter2hunter2", "0123456789abcdef0123456789abcdef", "hunter2", "Hunter_2"),
        *("A1B2C3D4E5F6A7B8C9D0E1F2A3B4C5D6", "AZ hunter2", "''"),
    ],
)
def test_a_key_in_the_file_is_an_error_that_does_not_repeat_it(file: Path, secret: str) -> None:
    ((line, said),) = problems(file, f"qwen:\n  key: {secret}\n")
    assert line == 2
    assert "must be the name of an environment variable" in said
    assert secret.strip("'") == "" or secret not in said


def test_secrets_are_no_parameters_and_ordinary_parameters_no_secrets(file: Path) -> None:
    names = ["api_key", "api-key", "Authorization", "password", "client_secret", "token"]
    ((_, said),) = problems(file, f"qwen: {{parameters: {{{', '.join(f'{name}: hunter2' for name in names)}}}}}\n")
    assert all(f"`{name}`" in said for name in names)
    assert "looks like a secret" in said
    assert "hunter2" not in said
    plain = dict.fromkeys(("max_tokens", "logit_bias", "top_p", "prompt_cache_key"), 1)
    file.write_text(f"qwen: {{parameters: {plain}}}\n", encoding="utf-8")
    assert read_definitions(file)["qwen"].parameters == plain


def test_the_example_in_the_documentation_is_valid() -> None:
    example = Path(__file__).parents[2] / "docs" / "reference" / "models.example.yaml"
    definitions = read_definitions(example)
    assert len(definitions) >= 4
    assert {definition.provider for definition in definitions.values()} >= {"openai", "azure", "bedrock"}


@pytest.mark.parametrize(
    ("definition", "says"),
    [
        ("{base_url: []}", "the list is empty"),
        ("{base_url: ['http://a/v1', 'http://a/v1']}", "occurs twice"),
        ("{base_url: ['http://a/v1', 'nonsense']}", "address 2, `nonsense`"),
        ("{base_url: 'http://a/v1', endpoints: f.txt}", "leave one of them out"),
        ("{endpoints: f.txt, insecure: true}", "`insecure` would apply to servers that are not known yet"),
        ("{endpoints: f.txt, ca_file: ca.pem}", "`ca_file` would apply to servers that are not known yet"),
        ("{provider: anthropic, endpoints: f.txt}", "several servers can serve a model of `provider: openai` only"),
    ],
)
def test_pools_that_cannot_be_defined(file: Path, definition: str, says: str) -> None:
    ((line, said),) = problems(file, f"qwen: {definition}\n")
    assert says in said
    assert line == 1


def test_a_file_that_was_only_found_sends_no_vendors_key_to_a_pool(file: Path) -> None:
    for where in ("base_url: ['http://127.0.0.1/v1', 'http://node/v1']", "endpoints: f.txt"):
        file.write_text(f"qwen: {{key: OPENAI_API_KEY, {where}}}\n", encoding="utf-8")
        with pytest.raises(ConfigError, match="`key` OPENAI_API_KEY belongs to OpenAI, and is not sent to"):
            read_definitions(file, is_found=True)
        assert read_definitions(file)["qwen"].key == "OPENAI_API_KEY"


@pytest.mark.parametrize(
    "variable", ["MEDHELM_STORE_KEY", "MEDHELM_GATEWAY_TOKEN", "MEDHELM_ANYTHING_API_KEY", "MEDHELM_API_KEY_2"]
)
def test_settings_of_medhelm_are_never_keys(file: Path, variable: str) -> None:
    ((line, text),) = problems(file, f"\nours: {{base_url: 'http://10.0.0.5/v1', key: {variable}}}\n")
    assert line == 2
    assert f"{variable} is a setting of MedHELM itself and is never sent" in text


@pytest.mark.parametrize("where", ["base_url: 'http://127.0.0.1:1/v1'", "base_url: 'https://h.example/v1'", "model: m"])
@pytest.mark.parametrize(
    "variable",
    ["HOME", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AZURE_STORAGE_ACCOUNT_KEY", "GITHUB_TOKEN", "DATABASE_URL"],
)
def test_a_file_that_was_only_found_sends_only_keys_of_models(file: Path, variable: str, where: str) -> None:
    file.write_text(f"ours: {{{where}, key: {variable}}}\n", encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        read_definitions(file, is_found=True)
    assert "is not sent" in str(raised.value)
    assert "name it with --models" in str(raised.value)
    assert read_definitions(file)["ours"].key == variable, "the user named the file"
    for allowed in ("WARD_7_KEY", "GROQ_API_KEY", "MEDHELM_API_KEY"):
        file.write_text(f"ours: {{{where}, key: {allowed}}}\n", encoding="utf-8")
        assert read_definitions(file, is_found=True)["ours"].key == allowed


@pytest.mark.parametrize("is_found", [True, False])
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("OPENAI/gpt-4o", "looks like a model of the provider `openai`"),
        ("openal/gpt-4o", "looks like a model of the provider `openai`"),
        ("B\\x61seline/majority", "looks like a model of the provider `baseline`"),
        ("openai /gpt-4o", "before a slash"),
        ("\\u043epenai/gpt-4o", "before a slash"),
        ("openai\\u2215gpt-4o", "before a slash"),
        ("\\uff4fpenai/gpt-4o", "before a slash"),
        ("openai\\u200b/gpt-4o", "a name must be one line of text"),
    ],
)
def test_names_that_look_like_those_of_a_provider(file: Path, name: str, words: str, is_found: bool) -> None:
    file.write_text(f'"{name}": {{base_url: "http://127.0.0.1:8000/v1"}}\n', encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        read_definitions(file, is_found=is_found)
    assert words in str(raised.value)
    for free in ("Qwen/Qwen3-8B", "local/qwen2.5", "Klinik \u00c4", "a b"):
        file.write_text(f'"{free}": {{base_url: "http://127.0.0.1:8000/v1"}}\n', encoding="utf-8")
        assert list(read_definitions(file, is_found=is_found)) == [free]
