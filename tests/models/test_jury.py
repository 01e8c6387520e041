"""Juries: named one by one or in a file, and everything that can be wrong with either."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import Jury
from medhelm.errors import ConfigError, UserError
from medhelm.models.catalog import find_jury, find_models, jury_warnings
from tests.support.cases import table

A, B, C = (f"openai/{name}@http://127.0.0.1:8000/v1" for name in "abc")
EXAMPLE = Path(__file__).parents[2] / "docs" / "reference" / "jury.example.yaml"


def find(names: Sequence[str] = (), **given: Any) -> tuple[Jury, list[str]]:
    """The jury, which must be there, and its warnings."""
    settings: dict[str, Any] = {"file": None, "at_least": None, "models_file": None, "environment": {}, **given}
    jury, warnings = find_jury(names, **settings)
    assert jury is not None
    return jury, warnings


def in_file(text: str, name: str = "my-jury.yaml") -> Path:
    """A file in the working directory."""
    Path(name).write_text(text, encoding="utf-8")
    return Path(name)


def judges(jury: Jury) -> list[str]:
    return [judge.name for judge in jury.judges]


# --- named ------------------------------------------------------------------------------------------------------------


def test_names_are_a_jury() -> None:
    for names, at_least, floor in (([C, A, B], None, 2), ([A, B, C], 3, 3), ([A], None, 1)):
        jury, warnings = find(names, at_least=at_least)
        assert (judges(jury), jury.min_judges, warnings) == (names, floor, [])
    assert jury.judges[0].base_url == "http://127.0.0.1:8000/v1"
    (warning,) = jury_warnings(jury, ())
    assert "only judge" in warning


@table(
    ("names", "at_least", "said"),
    [
        ([A, B, A], None, [f"judge `{A}`: is listed twice"]),
        (["baseline/lexical", A], None, ["judge `baseline/lexical`: a baseline picks words"]),
        ([A, "gpt-4o"], None, ["judge `gpt-4o`: unknown.", "Did you mean `openai/gpt-4o`?"]),
        ([A, B], 0, ["an instance cannot need 0 of 2 judges."]),
        (["x", "baseline/random", A, A], 9, ["judge `x`", "judge `baseline/random`", "listed twice", "9 of 4 judges"]),
    ],
)
def test_what_is_wrong_with_names_is_told_at_once(names: list[str], at_least: int | None, said: list[str]) -> None:
    with pytest.raises(UserError) as raised:
        find(names, at_least=at_least)
    assert [words for words in said if words not in str(raised.value)] == []
    assert len(str(raised.value).splitlines()) == (4 if len(said) == 4 else 1)


def test_one_model_under_two_names_is_one_judge() -> None:
    ward = "{model: a, base_url: 'http://127.0.0.1:8000/v1'}"
    warm = ward.replace("}", ", parameters: {temperature: 0.7}}")
    in_file(f"ward: {ward}\nwarm: {warm}\n", "models.yaml")
    with pytest.raises(UserError, match=f"judge `{A}`: is the same model as ward"):
        find(["ward", A])
    assert judges(find(["ward", "warm"])[0]) == ["ward", "warm"]


# --- in a file --------------------------------------------------------------------------------------------------------


def test_the_reference_implementations_file_is_read() -> None:
    in_file("meta/llama: {model: l, base_url: 'http://127.0.0.1:8000/v1'}\n", "models.yaml")
    text = """\
judges:
  - {name: gpt, model: openai/gpt-4o-2024-05-13, model_deployment: hospital/gpt-4o-2024-05-13}
  - {name: meta/llama, model: meta/llama}
  - {name: hospital/claude, model_name: openai/claude}
"""
    jury, warnings = find(file=in_file(text))
    assert judges(jury) == ["openai/gpt-4o-2024-05-13", "meta/llama", "openai/claude"]
    assert jury.judges[0].base_url == "https://api.openai.com/v1"
    assert warnings == [
        "judge openai/gpt-4o-2024-05-13: is called this here, not `gpt`, and its deployment "
        "`hospital/gpt-4o-2024-05-13` there is not used.",
        "judge openai/claude: its deployment `hospital/claude` there is not used.",
    ]


def test_which_number_of_judges_counts() -> None:
    in_file("judges: [broken\n", "jury.yaml")  # nobody named it
    plain, three = (
        in_file(f"judges: ['{A}', '{B}', '{C}']\n"),
        in_file(f"judges: ['{A}', '{B}']\nat_least: 3\n", "3.yaml"),
    )
    assert [find(file=plain, at_least=n)[0].min_judges for n in (None, 1)] == [2, 1]
    with pytest.raises(UserError, match="an instance cannot need 4 of 3 judges") as raised:
        find(file=plain, at_least=4)
    assert not isinstance(raised.value, ConfigError), "the file is right"
    with pytest.raises(ConfigError, match="line 2  at_least: an instance cannot need 3 of 2 judges"):
        find(file=three, at_least=1)


def test_which_file_counts() -> None:
    named, other = in_file(f"judges: ['{A}', '{B}']\n"), in_file(f"judges: ['{C}', '{B}']\n", "other.yaml")
    environment = {"MEDHELM_JURY": str(other)}
    assert judges(find(environment=environment)[0]) == [C, B]
    assert judges(find(file=named, environment=environment)[0]) == [A, B]
    jury, warnings = find([C, A], file=named)
    assert (judges(jury), warnings) == ([C, A], ["my-jury.yaml is not used, because judges were named with --judge."])
    for missing, environment in ((Path("none.yaml"), {}), (None, {"MEDHELM_JURY": "none.yaml"})):
        with pytest.raises(ConfigError, match="cannot be read"):
            find(file=missing, environment=environment)


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("", {None: "the file is empty"}),
        ("judges: []\n", {1: "judges: must have at least 1 entry"}),
        (
            f"judges:\n  - {A}\n  - baseline/majority\n  - gpt-4o\n  - {{model: {A}, name: again}}\nat_least: 5\n",
            {3: "a baseline picks words", 4: "unknown", 5: "is listed twice", 6: "an instance cannot need 5"},
        ),
        (
            "judges:\n  - baseline/majority\n  - 7\n  - ''\n  - {name: gpt}\natleast: 1\n",
            {
                2: "a baseline picks words",
                3: "judges[1]: must be the name of a model",
                4: "judges[2]: must name one model under `model`",
                5: "judges[3]: must name one model under `model`",
                6: "atleast: unknown key. Did you mean `at_least`?",
            },
        ),
    ],
)
def test_all_mistakes_in_a_file_are_told_with_their_lines(text: str, problems: dict[int | None, str]) -> None:
    with pytest.raises(ConfigError) as raised:
        find(file=in_file(text))
    assert [problem.line for problem in raised.value.problems] == list(problems)
    assert [words for problem in raised.value.problems if (words := problems[problem.line]) not in problem.text] == []


# --- judges under test ------------------------------------------------------------------------------------------------


@table(
    ("models", "warned"),
    [
        ([A, B, "baseline/random"], [A, B]),
        (["openai/vendor/A@https://gw.org/v1"], [A]),
        (["openai/a-mini", "openai/aa", "openai/x"], []),
    ],
)
def test_a_judge_under_test_is_warned_of(models: list[str], warned: list[str]) -> None:
    warnings = jury_warnings(find([A, B])[0], find_models(models, file=None, environment={}))
    assert [warning.partition(" ")[0] for warning in warnings] == warned
    assert all("is a judge and also under test" in warning for warning in warnings)


# --- the example ------------------------------------------------------------------------------------------------------


def test_the_examples_in_the_documentation_are_valid() -> None:
    _, _, local = EXAMPLE.read_text(encoding="utf-8").partition("# --- Nothing leaves the building ---\n")
    lines = [line.removeprefix("# ") for line in local.partition("# judges:")[2].splitlines()[1:]]
    for file, start in ((EXAMPLE, "https://openrouter.ai/"), (in_file("\n".join(["judges:", *lines])), "http://")):
        jury, warnings = find(file=file)
        assert (len(jury.judges), jury.min_judges, warnings) == (3, 2, [])
        assert all(judge.base_url.startswith(start) for judge in jury.judges)
