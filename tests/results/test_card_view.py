"""The evaluation card as Markdown and as a page."""

from __future__ import annotations

from dataclasses import replace

from medhelm.results.card_view import Card, CardBenchmark, CardJudge, CardModel, Number, to_html, to_markdown

MODEL = CardModel(
    name="maker/one", reached="a server in the own network", served_as="one", snapshots={"one-2026-01": 90, "": 10},
    rank=1, rank_low=1, rank_high=2, win_share=Number(value=0.7, low=0.6, high=0.8),
    win_rate=Number(value=0.75), macro_average=Number(value=0.6, low=0.55, high=0.65), n_benchmarks=1, cost_usd=1.234,
    judges_cost_usd=None,
    price="1 in, 2 out, USD per million tokens (list of 2026-01-02)",
)  # fmt: skip
BENCHMARK = CardBenchmark(
    id="toy", title="Toy", task="Play", source="public, x.test", revision="abcdef0123456789", files={"a.csv": "f" * 64},
    access="public", n=1000, selection="the usual selection", metric="EM", low=0.0, high=1.0, mde=0.05,
    definition_digest="a" * 64, data_digest="b" * 64, prompts_digest="", max_tokens="5",
    scores={"maker/one": Number(value=0.9, low=0.88, high=0.92, n=990, n_failed=10, n_failed_by_model=2)},
)  # fmt: skip
CARD = Card(
    date="2026-03-04", first_run="2026-03-01", last_run="2026-03-02", scoring="corrected", tier="real",
    verdict=["maker/one leads (macro average 0.600).", "It cost 1.23 US dollars."], ranked_by="macro average",
    models=[MODEL], benchmarks=[BENCHMARK],
    judges=[CardJudge(name="judge/x", expected=100, missing=3)], settings={"Seed": "0"},
    findings=["One model alone."], limits=["It says little."], versions={"medhelm": "1", "Python": "3.11"},
    measures={"EM": "Share of right answers."}, command="medhelm run toy",
)  # fmt: skip


def test_a_rank_without_an_interval_is_shown_alone() -> None:
    for low, high in ((None, None), (1, 1)):
        text = to_markdown(replace(CARD, models=[replace(MODEL, rank_low=low, rank_high=high)]))
        assert "| 1 | maker/one |" in text


def test_unknown_values_are_dashes() -> None:
    unknown = replace(
        MODEL, win_share=None, win_rate=None, macro_average=None, cost_usd=None, price="", snapshots={}, served_as=""
    )
    text = to_markdown(replace(CARD, models=[unknown], benchmarks=[replace(BENCHMARK, scores={})], judges=[]))
    assert "| maker/one | – | – |" in text
    assert "unknown" in text
    assert "Judges" not in text


def test_the_verdict_comes_before_all_numbers() -> None:
    assert to_markdown(CARD).splitlines()[2] == "maker/one leads (macro average 0.600). It cost 1.23 US dollars."
    page = to_html(CARD)
    assert page.index("<h1>") < page.index('<p class="verdict">') < page.index("Evaluated") < page.index("<h2>")
    assert '<p class="verdict">' not in to_html(replace(CARD, verdict=[]))


def test_baselines_have_no_rank_and_are_not_counted_as_models() -> None:
    baseline = replace(MODEL, name="baseline/majority", rank=None, rank_low=None, rank_high=None, win_share=None)
    text = to_markdown(replace(CARD, models=[MODEL, baseline]))
    assert text.startswith("# Evaluation card: 1 model on 1 benchmark")
    assert "| – | baseline/majority | " in text


def test_win_shares_are_explained_only_where_they_are_known() -> None:
    assert "Win share: how often" in to_markdown(CARD)
    bare = to_markdown(replace(CARD, ranked_by="win rate", verdict=[], models=[replace(MODEL, win_share=None)]))
    assert "win share" not in bare.lower()
    assert "Rank: by win rate" in bare


def test_few_models_are_columns_and_many_are_rows() -> None:
    def with_models(n: int) -> str:
        models = [replace(MODEL, name=f"m/{i}") for i in range(n)]
        scores = {model.name: Number(value=0.5) for model in models}
        return to_markdown(replace(CARD, models=models, benchmarks=[replace(BENCHMARK, scores=scores)]))

    assert "| Benchmark | Metric (scale) | m/0 | m/1 | m/2 | m/3 |" in with_models(4)
    assert "| Benchmark | Metric (scale) | Model | Score |" in with_models(5)


def test_a_wide_scale_has_two_decimals() -> None:
    jury = replace(BENCHMARK, metric="Jury", low=1.0, high=5.0, scores={"maker/one": Number(value=3.14159)})
    text = to_markdown(replace(CARD, benchmarks=[jury]))
    assert "Jury (1 to 5)" in text
    assert "| 3.14 |" in text


def test_the_warning_about_invented_rows_comes_first() -> None:
    page = to_html(replace(CARD, tier="sample"))
    assert '<p class="invented">INVENTED EXAMPLES, NOT REAL DATA' in page
    assert page.index("INVENTED") < page.index("<h2>")
    assert "INVENTED" not in to_html(CARD)


def test_every_text_is_escaped() -> None:
    evil = "<b onclick=x>&\"'|`*"
    card = replace(
        CARD, models=[replace(MODEL, name=evil, reached=evil, price=evil)], findings=[evil], limits=[evil],
        benchmarks=[replace(BENCHMARK, title=evil, task=evil, source=evil, selection=evil)], settings={evil: evil},
        judges=[CardJudge(name=evil, expected=0, missing=0)], command=evil, versions={evil: evil},
        measures={evil: evil},
    )  # fmt: skip
    assert "<b " not in to_html(card)
    table = [line for line in to_markdown(card).splitlines() if line.startswith("|")]
    assert "<b " not in "".join(table).replace("\\<", "")
