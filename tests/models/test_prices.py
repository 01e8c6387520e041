"""Prices of a file, a list and the package, by name and by day."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import Model, Price
from medhelm.errors import ConfigError, UserError
from medhelm.models.price_book import PriceBook, read_price_books
from medhelm.models.prices import price_of
from medhelm.results.published.boards import load_results

DAY = date(2025, 9, 1)


def model(name: str, **settings: Any) -> Model:
    """A model by its name, at OpenAI unless it says where."""
    provider, _, rest = name.partition("/")
    remote, _, address = rest.partition("@")
    base_url = address or "https://api.openai.com/v1"
    return Model(name=name, provider=provider, remote_name=remote, base_url=base_url, **settings)


def book(tmp_path: Path, text: str) -> PriceBook:
    file = tmp_path / "prices.yaml"
    file.write_text(text, encoding="utf-8")
    (found,) = read_price_books([str(file)])
    return found


def problems(tmp_path: Path, text: str) -> list[tuple[int | None, str]]:
    with pytest.raises(ConfigError) as caught:
        book(tmp_path, text)
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


def test_names_from_the_most_exact_to_what_the_server_calls_it_and_both_days_of_a_period_count(tmp_path: Path) -> None:
    found = book(tmp_path, "\ufeff" + OURS)
    local = "@http://127.0.0.1:8000/v1"
    expected = {
        "openai/gpt-4o": (1.0, 2.0),
        f"openai/gpt-4o{local}": (0.1, 0.2),
        "azure/gpt-4o": None,
        f"openai/meta-llama/Llama-3.3-70B-Instruct{local}": (0.0, 0.5),
    }
    assert {name: of(found.price_of(model(name), DAY)) for name in expected} == expected
    assert found.entries[0].price == Price(input=1.0, output=2.0, source="prices.yaml: our contract")
    assert found.entries[2].price.cache_write == 0.2
    days = (date(2025, 6, 9), date(2025, 6, 10), date(2026, 1, 1))
    assert [of(found.price_of(model("openai/o3"), day)) for day in days] == [(10.0, 40.0), (2.0, 8.0), None]


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


# --- what is wrong with a file ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        *((f"{{model: a, input: 1, output: {text}}}", "[0].output: must be a") for text in ("5%", "'2.5'", ".nan")),
        ("{model: a, input: 2.5e-06, output: 2}", "looks like a price for one token. Prices are for a million tokens"),
        ("{model: a, input: 1, output: 2, from: 2025-02-02, until: 2025-02-01}", "2025-02-01 is before `from`"),
    ],
)
def test_one_thing_wrong(tmp_path: Path, entry: str, words: str) -> None:
    ((line, text),) = problems(tmp_path, f"# ours\n- {entry}\n")
    assert (line, words in text) == (2, True), text


def test_all_contradictions_are_reported_at_once(tmp_path: Path) -> None:
    entries = ["input: 1, output: 2", "input: 1, output: 3, from: 2025-05-01", "input: 1, output: 4, until: 2025-04-30"]
    found = problems(tmp_path, "".join(f"- {{model: b, {entry}}}\n" for entry in entries))
    assert [line for line, _ in found] == [2, 3]
    assert "`b` has another price in line 1 for some of the same days" in found[0][1]


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


# --- list prices ------------------------------------------------------------------------------------------------------


def listed_model(remote_name: str, base_url: str = "https://api.openai.com/v1", **settings: Any) -> Model:
    """A model somewhere."""
    return Model(name=remote_name, remote_name=remote_name, base_url=base_url, **{"provider": "openai", **settings})


def test_list_prices_have_days_steps_of_which_the_first_counts_and_a_rate_for_writing_to_a_cache() -> None:
    azure = price_of(listed_model("gpt-4o", "https://x.openai.azure.com/openai/v1", provider="azure"), DAY)
    claude = price_of(listed_model("claude-sonnet-4-5", "https://api.anthropic.com/v1", provider="anthropic"), DAY)
    steps = price_of(listed_model("gpt-5.4"), date(2026, 6, 1))
    assert azure and claude and steps
    assert (azure.input, azure.output, azure.cached_input) == (2.5, 10.0, 1.25)
    assert (claude.input, claude.cached_input, claude.cache_write) == (3.0, 0.3, 3.75)
    assert (steps.input, steps.output, steps.cached_input) == (2.5, 15.0, 0.25)
    assert re.fullmatch(r"genai-prices .* 2025-09-01", azure.source)
    found = [price_of(listed_model("o3"), day) for day in (date(2025, 5, 1), DAY)]
    assert [price.input for price in found if price] == [10.0, 2.0]


def test_what_is_not_known_is_none_and_never_zero() -> None:
    azure = listed_model("my-deployment", "https://x.openai.azure.com/openai/v1", provider="azure")
    for asked in (listed_model("gpt-nonsense"), listed_model("gpt-4o", "https://gateway.hospital.org/v1"), azure):
        assert price_of(asked, DAY) is None
