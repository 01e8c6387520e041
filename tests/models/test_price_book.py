"""Price files and snapshots: what they say, for whom, on which day, and everything that can be wrong with them."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from medhelm.domain import Model, Price
from medhelm.errors import ConfigError, UserError
from medhelm.models.price_book import PriceBook, read_price_books
from medhelm.models.prices import price_of
from medhelm.results.published.boards import load_results

DAY = date(2025, 9, 1)


def model(name: str, **settings: object) -> Model:
    """A model by its name, at OpenAI unless it says where."""
    provider, _, rest = name.partition("/")
    remote, _, address = rest.partition("@")
    known = {
        "provider": provider,
        "remote_name": remote,
        "base_url": address or "https://api.openai.com/v1",
        **settings,
    }
    return Model(name=name, **known)  # type: ignore[arg-type]


def book(tmp_path: Path, text: str) -> PriceBook:
    file = tmp_path / "prices.yaml"
    file.write_text(text, encoding="utf-8")
    (found,) = read_price_books([str(file)])
    return found


def problems(tmp_path: Path, text: str) -> list[tuple[int | None, str]]:
    with pytest.raises(ConfigError) as caught:
        book(tmp_path, text)
    assert caught.value.exit_code == 2
    return [(problem.line, problem.text) for problem in caught.value.problems]


def of(price: Price | None) -> tuple[float, float] | None:
    return (price.input, price.output) if price else None


# --- what a book says -------------------------------------------------------------------------------------------------

OURS = """\
- {model: openai/gpt-4o, input: 1, output: 2, source: our contract}
- {model: openai/gpt-4o@http://127.0.0.1:8000/v1, input: 0.1, output: 0.2}
- {model: Llama-3.3-70B-Instruct, input: 0, output: 0.5, cached_input: 0, cache_write: 0.2}
- {model: o3, input: 10, output: 40, until: 2025-06-09}
- {model: o3, input: 2, output: 8, from: 2025-06-10, until: 2025-12-31}
"""


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("openai/gpt-4o", (1.0, 2.0)),
        ("openai/gpt-4o@http://127.0.0.1:8000/v1", (0.1, 0.2)),
        ("openai/gpt-4o@https://gateway.hospital.org/v1", (1.0, 2.0)),
        ("azure/gpt-4o", None),
        ("openai/meta-llama/Llama-3.3-70B-Instruct@http://127.0.0.1:8000/v1", (0.0, 0.5)),
        ("openai/o3", (2.0, 8.0)),
    ],
)
def test_names_from_the_most_exact_to_what_the_server_calls_it(
    tmp_path: Path, asked: str, expected: tuple[float, float] | None
) -> None:
    found = book(tmp_path, "\ufeff" + OURS)
    assert of(found.price_of(model(asked), DAY)) == expected
    assert found.entries[0].price == Price(input=1.0, output=2.0, source="prices.yaml: our contract")
    assert found.entries[2].price.cache_write == 0.2


@pytest.mark.parametrize(
    ("day", "expected"),
    [
        (date(2025, 6, 9), (10.0, 40.0)),
        (date(2025, 6, 10), (2.0, 8.0)),
        (date(2026, 1, 1), None),
    ],
)
def test_both_days_of_a_period_count(tmp_path: Path, day: date, expected: tuple[float, float] | None) -> None:
    assert of(book(tmp_path, OURS).price_of(model("openai/o3"), day)) == expected


def test_books_go_before_models_yaml_and_before_the_lists(tmp_path: Path) -> None:
    own = Price(input=7.0, output=8.0, source="models.yaml")
    ours = book(tmp_path, OURS)
    (paper,) = read_price_books(["paper-2025-05-12"])
    plain, defined = model("openai/gpt-4o"), model("openai/gpt-4o", price=own)
    assert of(price_of(plain, DAY)) == (2.5, 10.0)
    assert price_of(defined, DAY) is own
    assert of(price_of(plain, DAY, [ours])) == of(price_of(defined, DAY, [ours])) == (1.0, 2.0)
    dated = model("openai/gpt-4o-2024-05-13")
    assert of(price_of(dated, DAY)) == (5.0, 15.0)
    assert of(price_of(dated, DAY, [ours, paper])) == (2.5, 10.0)
    everyone = book(tmp_path, "- {model: baseline/x, input: 1, output: 1}")
    assert of(price_of(Model(name="baseline/x", provider="baseline", remote_name="x"), DAY, [everyone])) == (0.0, 0.0)
    # Where a book has nothing the others go on.
    assert of(price_of(model("openai/gpt-4o-mini"), DAY, [ours])) == (0.15, 0.6)


# --- the paper's prices -----------------------------------------------------------------------------------------------


def test_the_jury_of_the_paper_costs_6_21_and_25_71() -> None:
    (paper,) = read_price_books(["paper-2025-05-12"])
    judges = ["gpt-4o-2024-05-13", "meta/llama-3.3-70b-instruct", "claude-3-7-sonnet-20250219"]
    found = [paper.price_of(model(f"openai/{judge}"), DAY) for judge in judges]
    assert sum(price.input for price in found if price) == pytest.approx(6.21)
    assert sum(price.output for price in found if price) == pytest.approx(25.71)
    assert all(price and "12 May 2025" in price.source for price in found)


# --- what is wrong with a file ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("written", ["1,000", "5%", "$2.50", "'2.5'", ".nan", "free"])
def test_what_is_no_number(tmp_path: Path, written: str) -> None:
    (first, second) = problems(tmp_path, f"- model: a\n  input: -1\n  output: {written}\n")
    assert (first[0], second[0]) == (2, 3)
    assert second[1].startswith("[0].output: must be a")
    assert "US dollars per million tokens" in second[1]


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("{model: a, input: -1, output: 2}", "[0].input: must be at least 0, is the number -1."),
        ("{model: a, input: 2.5e-06, output: 2}", "looks like a price for one token. Prices are for a million tokens"),
        ("{model: '', input: 1, output: 2}", "[0].model: must not be empty"),
        ("{model: a, input: 1, output: 2, form: 2025-01-01}", "[0].form: unknown key. Did you mean `from`?"),
        ("{model: a, input: 1, output: 2, from: 12.05.2025}", "must be a day such as 2025-05-12, is `12.05.2025`."),
        ("{model: a, input: 1, output: 2, until: 2025-02-30}", "must be a day such as 2025-05-12, is `2025-02-30`."),
        ("{model: a, input: 1, output: 2, until: 20250230}", "[0].until: must be text, is the number 20250230."),
        ("{model: a, input: 1, output: 2, from: 2025-02-02, until: 2025-02-01}", "2025-02-01 is before `from`"),
    ],
)
def test_one_thing_wrong(tmp_path: Path, entry: str, words: str) -> None:
    ((line, text),) = problems(tmp_path, f"# ours\n- {entry}\n")
    assert line == 2
    assert words in text


def test_all_contradictions_are_reported_at_once(tmp_path: Path) -> None:
    text = """\
- {model: b, input: 1, output: 2}
- {model: b, input: 1, output: 3, from: 2025-05-01}
- {model: c, input: 1, output: 2, until: 2025-04-30}
- {model: c, input: 1, output: 2, from: 2025-05-01}
- {model: c, input: 1, output: 2, from: 2025-04-30, until: 2025-04-30}
"""
    found = problems(tmp_path, text)
    assert [line for line, _ in found] == [2, 5]
    assert "`b` has another price in line 1 for some of the same days" in found[0][1]
    assert "`c` has another price in line 3" in found[1][1]


def test_what_cannot_be_read_is_neither_a_file_nor_a_snapshot(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"`paper-2025-05`: neither a file nor a snapshot. Did you mean `paper-2025"):
        read_price_books(["paper-2025-05"])
    (tmp_path / "prices.yaml").write_bytes(b"- {model: \xff}")
    for name, words in (("prices.yaml", "not UTF-8"), ("", "cannot be read")):
        with pytest.raises(ConfigError, match=words):
            read_price_books([str(tmp_path / name)])


# --- what others say of them ------------------------------------------------------------------------------------------

DOCS = Path(__file__).parents[2] / "docs" / "explanation" / "cost.md"


def test_the_example_in_the_documents_can_be_read(tmp_path: Path) -> None:
    example = DOCS.read_text(encoding="utf-8").partition("```yaml\n")[2].partition("```")[0]
    found = book(tmp_path, example)
    assert [entry.model for entry in found.entries] == ["openai/gpt-4o", "o3", "o3"]
    assert of(found.price_of(model("openai/o3"), date(2025, 6, 10))) == (2.0, 8.0)


def test_the_published_results_ship_with_the_same_prices() -> None:
    paper, printed = read_price_books(["paper-2025-05-12", "paper-2025-05-12-g5"])
    results = load_results()
    for one in results.models.values():
        asked = Model(name=one.model, provider="openai", remote_name=one.model.partition("/")[2])
        assert of(paper.price_of(asked, DAY)) == of(one.price), one.model
        assert of(printed.price_of(asked, DAY)) == of(one.printed_price or one.price), one.model
