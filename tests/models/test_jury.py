"""Juries: named one by one or in a file, and everything that can be wrong with either."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from medhelm.domain import Jury
from medhelm.errors import ConfigError, UserError
from medhelm.models.catalog import find_jury, find_models, jury_warnings
from tests.support.cases import table

A, B, C = (f"openai/{name}@http://127.0.0.1:8000/v1" for name in "abc")
EXAMPLE = Path(__file__).parents[2] / "docs" / "reference" / "jury.example.yaml"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No models.yaml lies around."""
    monkeypatch.chdir(tmp_path)


def find(
    names: Sequence[str] = (),
    file: Path | None = None,
    at_least: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> tuple[Jury, list[str]]:
    """The jury, which must be there, and its warnings."""
    jury, warnings = find_jury(names, file=file, at_least=at_least, models_file=None, environment=environment or {})
    assert jury is not None
    return jury, warnings


def in_file(text: str, name: str = "my-jury.yaml") -> Path:
    """A file in the working directory."""
    Path(name).write_text(text, encoding="utf-8")
    return Path(name)


def judges(jury: Jury) -> list[str]:
    return [judge.name for judge in jury.judges]


# --- named ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "at_least", "floor"),
    [((A, B, C), None, 2), ((C, A), 1, 1), ((A, B, C), 3, 3), ((A,), None, 1)],
)
def test_names_are_a_jury(names: Sequence[str], at_least: int | None, floor: int) -> None:
    jury, warnings = find(names, at_least=at_least)
    assert (judges(jury), jury.min_judges) == (list(names), floor)
    assert jury.judges[0].base_url == "http://127.0.0.1:8000/v1"
    assert warnings == []
    (warning,) = jury_warnings(jury, ()) if len(names) == 1 else ("only judge: agreement cannot be measured",)
    assert "only judge" in warning


@table(
    ("names", "at_least", "said"),
    [
        ([A, B, A], None, [f"judge `{A}`: is listed twice"]),
        (["baseline/lexical", A], None, ["judge `baseline/lexical`: a baseline picks words"]),
        (["replay/r.jsonl", A], None, ["judge `replay/r.jsonl`: a replay file holds completions"]),
        ([A, "gpt-4o"], None, ["judge `gpt-4o`: unknown.", "Did you mean `openai/gpt-4o`?"]),
        ([A, "openai/x@https://h/v1?a=b"], None, ["except Azure's `?api-version=`"]),
        ([A, B], 3, ["an instance cannot need 3 of 2 judges."]),
        ([A, B], 0, ["an instance cannot need 0 of 2 judges."]),
        (["x", "baseline/random", A, A], 9, ["judge `x`", "judge `baseline/random`", "listed twice", "9 of 4 judges"]),
    ],
)
def test_what_is_wrong_with_names_is_told_at_once(names: list[str], at_least: int | None, said: list[str]) -> None:
    Path("r.jsonl").write_bytes(b"")
    with pytest.raises(UserError) as raised:
        find(names, at_least=at_least)
    assert [words for words in said if words not in str(raised.value)] == []
    assert len(str(raised.value).splitlines()) == (4 if len(said) == 4 else 1)


def test_one_model_under_two_names_is_one_judge() -> None:
    ward = "{model: a, base_url: 'http://127.0.0.1:8000/v1'}"
    warm = ward.replace("}", ", parameters: {temperature: 0.7}}")
    models = in_file(f"ward: {ward}\nwarm: {warm}\n", "models.yaml")
    with pytest.raises(UserError, match=f"judge `{A}`: is the same model as ward"):
        find(["ward", A])
    assert judges(find(["ward", "warm"])[0]) == ["ward", "warm"]
    models.rename("ours.yaml")
    jury, _ = find_jury(["ward", B], file=None, at_least=None, models_file=Path("ours.yaml"), environment={})
    assert jury is not None
    assert [judge.remote_name for judge in jury.judges] == ["a", "b"]
    in_file("ward: {modle: x}\n", "models.yaml")
    with pytest.raises(ConfigError, match=r"models\.yaml has 1 problem"):
        find([A, "ward"])


# --- in a file --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "asked", "floor"), [("", None, 2), ("at_least: 3", None, 3), ("at_least: 3", 2, 2)]
)
def test_who_decides_how_many_are_needed(written: str, asked: int | None, floor: int) -> None:
    in_file("judges: [broken\n", "jury.yaml")  # nobody named it
    jury, warnings = find(file=in_file(f"judges:\n  - {A}\n  - '{B}'\n  - {C}\n{written}\n"), at_least=asked)
    assert (judges(jury), jury.min_judges, warnings) == ([A, B, C], floor, [])


def test_the_reference_implementations_file_is_read() -> None:
    in_file("meta/llama: {model: l, base_url: 'http://127.0.0.1:8000/v1'}\n", "models.yaml")
    text = """\
judges:
  - name: gpt
    model: openai/gpt-4o-2024-05-13
    model_deployment: hospital/gpt-4o-2024-05-13
  - name: meta/llama
    model: meta/llama
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


def test_which_file_counts() -> None:
    named = in_file(f"judges: ['{A}', '{B}']\n")
    other = in_file(f"judges: ['{C}', '{B}']\n", "other.yaml")
    assert judges(find(environment={"MEDHELM_JURY": str(other)})[0]) == [C, B]
    assert judges(find(file=named, environment={"MEDHELM_JURY": str(other)})[0]) == [A, B]
    jury, warnings = find([C, A], environment={"MEDHELM_JURY": str(other)})
    assert (judges(jury), warnings) == ([C, A], [])
    jury, warnings = find([C, A], file=named)
    assert (judges(jury), warnings) == ([C, A], ["my-jury.yaml is not used, because judges were named with --judge."])


@pytest.mark.parametrize("environment", [None, {"MEDHELM_JURY": "none.yaml"}])
def test_a_file_that_was_named_must_be_there(environment: Mapping[str, str] | None) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        find(file=None if environment else Path("none.yaml"), environment=environment)


@table(
    ("text", "line", "said"),
    [
        ("", None, "the file is empty"),
        ("judges: []\n", 1, "judges: must have at least 1 entry"),
        ("at_least: 2\n", None, "judges: missing"),
        ("judges:\n  - openai/a\n  - [b]\n", 3, "judges[1]: must be the name of a model"),
        ("judges:\n  - openai/a\n  - ''\n", 3, "judges[1]: must name one model under `model`"),
        ("judges:\n  - {name: gpt}\n", 2, "judges[0]: must name one model under `model`"),
        ("judges:\n  - {model: openai/a, model_name: openai/b}\n", 2, "judges[0]: must name one model"),
        ("judges: [openai/a]\natleast: 1\n", 2, "atleast: unknown key. Did you mean `at_least`?"),
        ("judges: [openai/a]\nat_least: 0\n", 2, "at_least: must be at least 1"),
    ],
)
def test_each_mistake_in_a_file_has_its_words(text: str, line: int | None, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        find(file=in_file(text))
    (problem,) = raised.value.problems
    assert problem.line == line
    assert said in problem.text


def test_too_many_needed_on_the_command_line_is_not_the_files_mistake() -> None:
    with pytest.raises(UserError, match="an instance cannot need 3 of 2 judges") as raised:
        find(file=in_file(f"judges: ['{A}', '{B}']\nat_least: 2\n"), at_least=3)
    assert not isinstance(raised.value, ConfigError)
    with pytest.raises(ConfigError, match="line 2  at_least: an instance cannot need 3 of 2 judges"):
        find(file=in_file(f"judges: ['{A}', '{B}']\nat_least: 3\n"), at_least=1)


# --- judges under test ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("models", "warned"),
    [
        (["openai/x"], []),
        ([B], [B]),
        ([A, B, "baseline/random"], [A, B]),
        (["openai/a"], [A]),
        (["openai/vendor/A@https://gw.org/v1"], [A]),
        (["openai/a-mini", "openai/aa"], []),
    ],
)
def test_a_judge_under_test_is_warned_of(models: list[str], warned: list[str]) -> None:
    jury, _ = find([A, B])
    warnings = jury_warnings(jury, find_models(models, file=None, environment={}))
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


def test_the_form_and_the_judges_are_checked_together(tmp_path: Path) -> None:
    file = tmp_path / "jury.yaml"
    for text, lines in (
        (
            f"judges:\n  - {A}\n  - baseline/majority\n  - gpt-4o\n  - {{model: {A}, name: again}}\nat_least: 5\n",
            [3, 4, 5, 6],
        ),
        ("judges:\n  - baseline/majority\n  - 7\nat_leest: 2\n", [2, 3, 4]),
        ("judges:\n  - 7\n  - {model: nosuch/x}\n", [2, 3]),
        ("judges:\n  - openai/a\n  - baseline/majority\n  - openai/a\nat_least: 9\n", [3, 4, 5]),
    ):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError) as refused:
            find_jury([], file=file, at_least=None, models_file=None, environment={})
        assert [problem.line for problem in refused.value.problems] == lines
