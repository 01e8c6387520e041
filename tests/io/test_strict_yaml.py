"""Strict YAML: what words mean, where things stand, and every problem at once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from medhelm.domain.text import value_in_words
from medhelm.errors import ConfigError
from medhelm.io import strict_yaml as config
from medhelm.io.strict_yaml import load_yaml, validate


class Price(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    input: Annotated[float, Field(ge=0)]
    output: float = 0.0


class Shop(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    name: str
    access: Literal["public", "gated", "private"] = "public"
    size: Annotated[int, Field(ge=1, le=10)] = 1
    dozens: Annotated[int, Field(multiple_of=12)] = 12
    open: bool = True
    tags: Annotated[list[str], Field(min_length=1, max_length=3)] = ["a"]
    prices: dict[str, Price] = {}
    main: Price | None = None
    address: str | list[str] = ""


@pytest.fixture(params=["c", "python"])
def _each_loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same language with and without libyaml."""
    if request.param == "python":
        monkeypatch.setattr(config, "LOADER", yaml.SafeLoader)


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "x.yaml"
    path.write_bytes(text.encode("utf-8") if isinstance(text, str) else text)
    return path


def problems(folder: Path, text: str | bytes, model: type[BaseModel] | None = None) -> list[tuple[int | None, str]]:
    """Line and text of everything that is wrong."""
    with pytest.raises(ConfigError) as caught:
        document = load_yaml(written(folder, text))
        if model:
            validate(document, model)
    return [(problem.line, problem.text) for problem in caught.value.problems]


WORDS: dict[str, object] = {
    **{word: word for word in ("yes", "on", "y", "True", "Null", "010", "0x1F", "1_000", "1:30", ".inf", "1.2.3",
                               "9" * 23, "2024-01-02", "<<", "👩‍⚕️ ünï")},
    "true": True, "false": False, "null": None, "~": None, "": None, "''": "", "'true'": "true", '"5"': "5",
    "-5": -5, "0": 0, ".5": 0.5, "1e-6": 1e-6, "2.5e6": 2.5e6, "[yes, 1, true]": ["yes", 1, True],
    "{1: one, yes: {null: b}}": {"1": "one", "yes": {"null": "b"}}, "|\n  1\n": "1\n", ">-\n  true\n": "true",
}  # fmt: skip
"""What is written -> what it means: only `true`, `false`, `null`, `~` and plain decimal numbers are more than text."""


@pytest.mark.usefixtures("_each_loader")
@pytest.mark.parametrize(("word", "value"), WORDS.items())
def test_words_mean_what_they_say(tmp_path: Path, word: str, value: object) -> None:
    data = load_yaml(written(tmp_path, f"key: {word}\n")).data
    assert data == {"key": value}
    assert type(data["key"]) is type(value)


@pytest.mark.usefixtures("_each_loader")
def test_every_place_knows_its_line(tmp_path: Path) -> None:
    text = "# comment\na: 1\nb:\n  c:\n    - x\n    - y: 2\n  d: [p, q]\ntext: |\n  one\n  two {x}\n"
    document = load_yaml(written(tmp_path, text))
    lines = {("a",): 2, ("b",): 3, ("b", "c"): 4, ("b", "c", 0): 5, ("b", "c", 1): 6, ("b", "c", 1, "y"): 6}
    assert {path: document.line_of(path) for path in lines} == lines
    assert document.line_of(("b", "d", 1)) == 7
    assert document.line_of(("b", "c", 7, "unknown")) == 4, "the nearest place around it"
    assert document.line_of(("zzz",)) is None
    assert document.line_of(()) is None
    assert document.line_with(("text",), "{x}") == 10
    assert document.line_with(("text",), "nowhere") == 8
    assert document.line_with((), "two") == 10


def test_a_byte_order_mark_and_windows_lines_are_fine(tmp_path: Path) -> None:
    document = load_yaml(written(tmp_path, b"\xef\xbb\xbfa: 1\r\nb: two\r\n"))
    assert document.data == {"a": 1, "b": "two"}
    assert document.line_of(("b",)) == 2


@pytest.mark.usefixtures("_each_loader")
@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\nb: [1, 2\n", 2, "not valid YAML"),
        ("a: 1\n\tb: 2\n", 2, "not valid YAML"),
        ("a: 1\nb: x: y\n", 2, "not valid YAML"),
        ("a: 1\na: 2\nb:\n  c: 3\n  c: 4\n", 5, "b.c: appears twice (first in line 4)"),
        ("a: &one [1]\nb: *one\n", None, "aliases"),
        ("a: !!python/object:os.system x\n", 1, "tags"),
        ("? [a, b]\n: 1\n", 1, "a key must be a text"),
        ("a: 1\n---\nb: 2\n", None, "not valid YAML"),
        (b"a: 1\nb: \xff\n", 2, "not UTF-8"),
        (b"a: \x00\n", None, "not valid YAML"),
    ],
)
def test_what_is_no_strict_yaml_is_refused_with_its_line(
    tmp_path: Path, text: str | bytes, line: int | None, words: str
) -> None:
    found = problems(tmp_path, text)
    assert any(words in problem for _, problem in found), found
    if line is not None:
        assert line in [number for number, _ in found]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: [b", 1, "not valid YAML: the file ends within a list in [ ]. Close it."),
        ("a: 1\nb: {c: 1,\n\n\n", 2, "not valid YAML: the file ends within a "),
        ("a: 1\nb: 'c\nd: 1\n", 2, "not valid YAML: the file ends within a quoted text. Close it."),
        ("{a: [\n", 1, "not valid YAML: the file ends within a list or mapping in brackets. Close it."),
        ("a: ]\n", 1, "not valid YAML: while parsing a value, did not find expected value."),
    ],
)
def test_the_parsers_terms_are_plain_and_its_lines_exist(tmp_path: Path, text: str, line: int, words: str) -> None:
    ((found, said),) = problems(tmp_path, text)
    assert found == line
    assert said.startswith(words)


@pytest.mark.parametrize(
    "text",
    ["a: " + "[" * 2000 + "]" * 2000, "a: " + "{b: " * 2000 + "}" * 2000, "- " * 2000 + "a"],
    ids=["lists", "mappings", "blocks"],
)
def test_nesting_has_an_end(tmp_path: Path, text: str) -> None:
    counts_levels = yaml.__with_libyaml__ and yaml._yaml.get_version() >= (0, 2, 6)
    assert problems(tmp_path, text) == [(1 if counts_levels else None, "nested too deeply.")]


def test_a_file_that_is_not_there_or_a_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "none.yaml", tmp_path):
        with pytest.raises(ConfigError, match="cannot be read") as caught:
            load_yaml(path)
        assert str(caught.value).startswith(f"{path}: cannot be read: ")
        assert caught.value.exit_code == 2


MISTAKES: list[tuple[str, int | None, str]] = [
    ("name: x\nacess: gated\n", 2, "acess: unknown key. Did you mean `access`?"),
    ("size: 1\n", None, "name: missing. Add this key."),
    ("name: 5\n", 1, "name: must be text, is the number 5. Put it in quotes."),
    ("name:\n", 1, "name: must be text, is empty."),
    ("name: x\nsize: 1.5\n", 2, "size: must be a whole number, is the number 1.5."),
    ("name: x\nsize: true\n", 2, "size: must be a whole number, is `true`."),
    ("name: x\nsize: 0\n", 2, "size: must be at least 1, is the number 0."),
    ("name: x\nopen: yes\n", 2, "open: must be true or false, is `yes`."),
    ("name: x\naccess: pubic\n", 2, "access: `pubic` is none of the possible values. Did you mean `public`?"),
    ("name: x\naccess: 5\n", 2,
     "access: the number 5 is none of the possible values. Known: public, gated, private."),
    ("name: x\ntags: []\n", 2, "tags: must have at least 1 entry."),
    ("name: x\ntags: [a, b, c, d]\n", 2, "tags: must have at most 3 entries."),
    ("name: x\nprices:\n  a:\n    inptu: 1\n    input: 1\n", 4,
     "prices.a.inptu: unknown key. Did you mean `input`?"),
    ("name: x\naddress: [a, 5]\n", 2, "address[1]: must be text, is the number 5. Put it in quotes."),
    ("name: x\nprices:\n  a: 5\n", 3, "prices.a: must be a mapping of keys to values, is the number 5."),
    ("name: x\nmain:\n  output: 1\n", 2, "main.input: missing. Add this key."),
    ("name: x\nmain:\n  input: free\n", 3, "main.input: must be a number, is `free`."),
    ("name: x\naddress: 5\n", 2, "address: must be text or a list, is the number 5. Put it in quotes."),
    ("name: x\ndozens: 3\n", 2, "dozens: Input should be a multiple of 12, is the number 3."),
    ("[a, b]\n", None, "the file: must be a mapping of keys to values, is a list."),
]  # fmt: skip
"""One mistake for each rule -> its line and what is said."""


@pytest.mark.parametrize(("text", "line", "problem"), MISTAKES)
def test_each_mistake_in_plain_words(tmp_path: Path, text: str, line: int | None, problem: str) -> None:
    assert problems(tmp_path, text, Shop) == [(line, problem)]


def test_all_mistakes_at_once_in_the_order_of_lines(tmp_path: Path) -> None:
    text = "name: 1\nacess: public\nsize: 0\nmain: {input: -1}\n"
    assert [line for line, _ in problems(tmp_path, text, Shop)] == [1, 2, 3, 4]


def test_what_is_right_becomes_the_model(tmp_path: Path) -> None:
    text = "name: 'yes'\nprices: {a: {input: 1, output: 2.5}}\ntags: [on, off]\n"
    shop = validate(load_yaml(written(tmp_path, text)), Shop)
    assert (shop.name, shop.tags, shop.prices["a"].output) == ("yes", ["on", "off"], 2.5)


def test_context_reaches_the_validators(tmp_path: Path) -> None:
    from pydantic import AfterValidator, ValidationInfo

    def known(name: str, info: ValidationInfo) -> str:
        if name not in info.context["known"]:  # type: ignore[index]
            raise ValueError(f"unknown `{name}`.")
        return name

    class Named(BaseModel):
        name: Annotated[str, AfterValidator(known)]

    document = load_yaml(written(tmp_path, "name: b\n"))
    assert validate(document, Named, context={"known": ["b"]}).name == "b"
    with pytest.raises(ConfigError, match=r"line 1  name: unknown `b`\."):
        validate(document, Named, context={"known": []})


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "empty"),
        ("", "an empty text"),
        ("a" * 100, "`" + "a" * 57 + "...`"),
        ("a\nb", "`a\\nb`"),
        (False, "`false`"),
        (1.5, "the number 1.5"),
        ({}, "a mapping"),
    ],
)
def test_values_are_shown_short(value: object, words: str) -> None:
    assert value_in_words(value) == words


def _reads_like_a_number(text: str) -> bool:
    """PyYAML writes texts like 1e5 without quotes, because it would not read them as numbers itself."""
    return re.fullmatch(r"[-+.0-9_]+[eE][-+0-9]+", text) is not None


values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.text(max_size=20).filter(lambda text: not _reads_like_a_number(text)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(min_size=1, max_size=8), inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all examples."""
    return tmp_path_factory.mktemp("yaml")


@given(data=st.dictionaries(st.text(min_size=1, max_size=8), values, max_size=4))
def test_what_other_yaml_writers_write_comes_back(folder: Path, data: dict[str, Any]) -> None:
    """Texts that look like something else are quoted by every writer, so they come back as texts."""
    path = folder / "x.yaml"
    text = yaml.dump(data, Dumper=yaml.SafeDumper, allow_unicode=False, default_style=None, sort_keys=False)
    path.write_text(text, encoding="utf-8")
    assert load_yaml(path).data == (data or {})
