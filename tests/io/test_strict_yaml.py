"""Strict YAML: what words mean, where things stand, and every problem at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import pytest
import yaml
from pydantic import BaseModel, ConfigDict, Field

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
    lines = {("a",): 2, ("b", "d", 1): 7, ("b", "c"): 4, ("b", "c", 0): 5, ("b", "c", 1): 6, ("b", "c", 1, "y"): 6}
    assert {path: document.line_of(path) for path in lines} == lines
    nearest = {("b", "c", 7, "unknown"): 4, ("zzz",): None, (): None}
    assert {path: document.line_of(path) for path in nearest} == nearest
    words = {"{x}": 10, "nowhere": 8}
    assert {word: document.line_with(("text",), word) for word in words} == words


@pytest.mark.usefixtures("_each_loader")
@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\n\tb: 2\n", 2, "not valid YAML"),
        ("a: 1\na: 2\nb:\n  c: 3\n  c: 4\n", 5, "b.c: appears twice (first in line 4)"),
        ("a: &one [1]\nb: *one\n", None, "aliases"),
        ("a: !!python/object:os.system x\n", 1, "tags"),
        ("? [a, b]\n: 1\n", 1, "a key must be a text"),
        ("a: 1\n---\nb: 2\n", None, "not valid YAML"),
        (b"a: 1\nb: \xff\n", 2, "not UTF-8"),
        (b"a: \x00\n", None, "not valid YAML"),
        ("a: 1\nb: 'c\nd: 1\n", 2, "not valid YAML: the file ends within a quoted text. Close it."),
    ],
)
def test_what_is_no_strict_yaml_is_refused_with_its_line(
    tmp_path: Path, text: str | bytes, line: int | None, words: str
) -> None:
    found = problems(tmp_path, text)
    assert any(words in problem for _, problem in found), found
    if line is not None:
        assert line in [number for number, _ in found]


def test_nesting_has_an_end_and_the_parsers_terms_are_plain(tmp_path: Path) -> None:
    counts_levels = yaml.__with_libyaml__ and yaml._yaml.get_version() >= (0, 2, 6)
    for text in ("a: " + "[" * 2000 + "]" * 2000, "- " * 2000 + "a"):
        assert problems(tmp_path, text) == [(1 if counts_levels else None, "nested too deeply.")]
    assert problems(tmp_path, "a: [b") == [(1, "not valid YAML: the file ends within a list in [ ]. Close it.")]


def test_a_file_that_is_not_there_or_a_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "none.yaml", tmp_path):
        with pytest.raises(ConfigError, match="cannot be read") as caught:
            load_yaml(path)
        assert str(caught.value).startswith(f"{path}: cannot be read: ")
        assert caught.value.exit_code == 2


MISTAKES = """\
name: 5
size: 1.5
open: yes
access: pubic
tags: []
prices:
  a:
    inptu: 1
    input: -1
  b: 5
address: [a, 5]
dozens: 3
"""


def test_all_mistakes_at_once_in_plain_words_and_in_the_order_of_lines(tmp_path: Path) -> None:
    assert problems(tmp_path, MISTAKES, Shop) == [
        (1, "name: must be text, is the number 5. Put it in quotes."),
        (2, "size: must be a whole number, is the number 1.5."),
        (3, "open: must be true or false, is `yes`."),
        (4, "access: `pubic` is not one of the possible values. Did you mean `public`?"),
        (5, "tags: must have at least 1 entry."),
        (8, "prices.a.inptu: unknown key. Did you mean `input`?"),
        (9, "prices.a.input: must be at least 0.0, is the number -1."),
        (10, "prices.b: must be a mapping of keys to values, is the number 5."),
        (11, "address[1]: must be text, is the number 5. Put it in quotes."),
        (12, "dozens: Input should be a multiple of 12, is the number 3."),
    ]
    assert problems(tmp_path, "size: 1\n", Shop) == [(None, "name: missing. Add this key.")]
    said = "the file: must be a mapping of keys to values, is a list."
    assert problems(tmp_path, "[a, b]\n", Shop) == [(None, said)]


def test_what_is_right_becomes_the_model_with_a_byte_order_mark_and_windows_lines(tmp_path: Path) -> None:
    text = "\ufeffname: 'yes'\r\nprices: {a: {input: 1, output: 2.5}}\r\n"
    shop = validate(load_yaml(written(tmp_path, text)), Shop)
    assert (shop.name, shop.prices["a"].output, shop.tags) == ("yes", 2.5, ["a"])
