"""models.yaml: everything it may say, and everything that can be wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("qwen: http://127.0.0.1\n", "qwen: must be a mapping of keys to values, such as {base_url: http...}"),
        ("qwen: {base_ulr: x}\n", "qwen.base_ulr: unknown key. Did you mean `base_url`?"),
        ("qwen: {provider: opena}\n", "qwen.provider: `opena` is not one of the possible values. Did you mean"),
        ("models:\n  qwen: {model: a}\n", "names belong at the top level"),
        ('"a\\nb": {model: a}\n', "a name must be one line of text"),
        ("baseline/majority: {model: a}\n", "baseline/majority: this name is reserved"),
        ("qwen: {reasoning_effort: hihg}\n", "`hihg` is not a known effort. Did you mean `high`?"),
        ("qwen: {window: 4000, max_tokens: 4000}\n", "leaves no room for a prompt"),
        ("qwen: {price: {input: 0.0000025, output: 1}}\n", "looks like a price for one token"),
        ("qwen: {parameters: {top_p: 1e999}}\n", "a number in it is too large to send"),
        ("qwen: {model: a}\nqwen: {model: b}\n", "appears twice"),
        ("qwen: {parameters: {messages: []}}\n", "`messages` is set by medhelm"),
        ("qwen: {base_url: 'https://me:secret@gw.org/v1'}\n", "not contain a user name or password"),
        ("qwen: {base_url: []}\n", "the list is empty"),
        ("qwen: {base_url: ['http://a/v1', 'http://a/v1']}\n", "occurs twice"),
        ("qwen: {base_url: 'http://a/v1', endpoints: f.txt}\n", "leave one of them out"),
        ("qwen: {endpoints: f.txt, insecure: true}\n", "`insecure` would apply to servers that are not known yet"),
        ("qwen: {provider: anthropic, endpoints: f.txt}\n", "several servers can serve a model of `provider: openai`"),
        ("qwen: {key: MEDHELM_STORE_KEY}\n", "is a setting of MedHELM itself and is never sent"),
        ("qwen: {key: MEDHELM_ANYTHING_API_KEY}\n", "is a setting of MedHELM itself and is never sent"),
    ],
)
def test_each_mistake_has_its_words(file: Path, text: str, words: str) -> None:
    assert words in "\n".join(said for _, said in problems(file, text))


def test_what_stands_twice_hides_nothing_else(file: Path) -> None:
    text = "a: {modle: x}\nb: {window: 0}\na: {model: y}\nc: &c {model: z}\n"
    found = problems(file, text)
    assert [line for line, _ in found] == [1, 2, 3]
    assert [said.partition(":")[0] for _, said in found] == ["a.modle", "b.window", "a"]


def test_a_key_in_the_file_is_an_error_that_does_not_repeat_it(file: Path) -> None:
    for secret in ("sk-proj-hunter2hunter2", "0123456789abcdef0123456789abcdef", "Hunter_2", "A1B2" * 8, "''"):
        ((line, said),) = problems(file, f"qwen:\n  key: {secret}\n")
        assert (line, "must be the name of an environment variable" in said) == (2, True)
        assert secret == "''" or secret not in said


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


LOCAL, EVIL = "base_url: 'http://127.0.0.1:1/v1'", "base_url: 'https://evil.example/v1'"


@pytest.mark.parametrize(
    ("variable", "where"),
    [
        ("AWS_SECRET_ACCESS_KEY", "model: m"),
        ("GITHUB_TOKEN", LOCAL),
        ("DATABASE_URL", EVIL),
        ("OPENAI_API_KEY", EVIL),
        ("OPENAI_API_KEY", "provider: anthropic, model: claude-x"),
        ("OPENAI_API_KEY", "base_url: ['http://127.0.0.1/v1', 'http://node/v1']"),
        ("OPENAI_API_KEY", "endpoints: f.txt"),
    ],
)
def test_a_file_that_was_only_found_sends_only_keys_of_models(file: Path, variable: str, where: str) -> None:
    """And keys of vendors only to them."""
    file.write_text(f"ours: {{{where}, key: {variable}}}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=rf"(?s)line 1  .*{variable}.* is not sent.*name it with --models"):
        read_definitions(file, is_found=True)
    assert read_definitions(file)["ours"].key == variable, "the user named the file"
    for allowed in ("WARD_7_KEY", "GROQ_API_KEY", "MEDHELM_API_KEY"):
        file.write_text(f"ours: {{{where}, key: {allowed}}}\n", encoding="utf-8")
        assert read_definitions(file, is_found=True)["ours"].key == allowed


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("OPENAI/gpt-4o", "looks like a model of the provider `openai`"),
        ("B\\x61seline/majority", "looks like a model of the provider `baseline`"),
        ("\\u043epenai/gpt-4o", "before a slash"),
        ("openai\\u2215gpt-4o", "before a slash"),
        ("openai\\u200b/gpt-4o", "a name must be one line of text"),
    ],
)
def test_names_that_look_like_those_of_a_provider(file: Path, name: str, words: str) -> None:
    file.write_text(f'"{name}": {{base_url: "http://127.0.0.1:8000/v1"}}\n', encoding="utf-8")
    for is_found in (True, False):
        with pytest.raises(ConfigError, match=words):
            read_definitions(file, is_found=is_found)


def test_other_names_are_free(file: Path) -> None:
    for free in ("Qwen/Qwen3-8B", "Klinik \u00c4", "a b"):
        file.write_text(f'"{free}": {{base_url: "http://127.0.0.1:8000/v1"}}\n', encoding="utf-8")
        assert list(read_definitions(file, is_found=True)) == [free]
