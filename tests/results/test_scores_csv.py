"""Tables of scores: what can be read, and every mistake with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from medhelm.benchmarks.suites import load_suite
from medhelm.domain.benchmark import SuiteEntry
from medhelm.errors import ConfigError, UserError
from medhelm.results.scores_csv import PublishedScores, read_scores
from tests.support.remarks import texts

FILE = Path(__file__).parents[1] / "fixtures" / "published_leaderboard.csv"

SUITE = [
    SuiteEntry(name="pubmed_qa", title="PubMedQA", category="research", subcategory="literature"),
    SuiteEntry(name="aci_bench", title="ACI-Bench", category="notes", subcategory="visits"),
    SuiteEntry(name="race_bias", title="RaceBias", alias="race_based_med", category="research", subcategory="quality"),
]


def read(folder: Path, content: str | bytes) -> PublishedScores:
    path = folder / "scores.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_scores(path, SUITE)


def test_the_whole_published_table_is_read() -> None:
    published = read_scores(FILE, load_suite())
    assert len(published.cells) == 9 * 37
    assert [c.benchmark for c in published.columns] == [entry.name for entry in load_suite()]
    assert [c.high == 5 for c in published.columns] == [c.metric == "Jury Score" for c in published.columns]
    assert published.win_rates["DeepSeek R1"] == 0.662
    assert texts(published.remarks) == ()


# One and the same table: m1 has 0.743 and 4.533, m2 has 0.8 and nothing.
PLAIN = "Model,PubMedQA - EM,ACI-Bench - Jury Score\nm1,0.743,4.533\nm2,0.8,\n"
EUROPEAN = "Model;PubMedQA - EM;ACI-Bench - Jury Score\r\nm1;0,743;4,533\r\nm2;0,8;\r\n"


@pytest.mark.parametrize(
    "content",
    [
        PLAIN,
        EUROPEAN,
        PLAIN.replace("0.743", "74.3%").replace("0.8", "80 %"),
        EUROPEAN.replace("0,743", "74,3\u00a0%"),
        PLAIN.replace("0.743", '"0,743"').replace("4.533", '"4,533"'),
        PLAIN.replace("Score\n", "Score,,\n").replace("4.533", "4.533,,").replace("0.8,", "0.8,,,"),
        ",,\n\n" + PLAIN.replace("m2", "\n , \nm2"),
        PLAIN.replace("Model", "Model/adapter").replace(" m", "\u00a0m"),
        PLAIN.replace("0.8,", "0.8,#N/A"),
    ],
)
def test_a_table_is_read_alike_however_it_was_saved(tmp_path: Path, content: str) -> None:
    """Encodings, separators and workbooks are those of `io.spreadsheets`."""
    found = read(tmp_path, content)
    assert [(c.model, c.benchmark, c.value) for c in found.cells] == [
        ("m1", "pubmed_qa", 0.743),
        ("m1", "aci_bench", 4.533),
        ("m2", "pubmed_qa", 0.8),
    ]
    assert texts(found.remarks) == ()


def test_headings_match_by_letters_and_digits_and_tell_the_scale_though_they_were_cut(tmp_path: Path) -> None:
    text = "Model,PUBMED QA - MedCalc Acc...,aci_bench - Jury…,race-based-med - M...\nm,0.5,4,0.25\n"
    found = read(tmp_path, text)
    assert [(c.benchmark, c.low, c.high) for c in found.columns] == [
        ("pubmed_qa", 0, 1),
        ("aci_bench", 1, 5),
        ("race_bias", 0, 1),
    ]


def test_a_benchmark_of_ones_own_is_shown_as_unknown(tmp_path: Path) -> None:
    found = read(tmp_path, "Model,PubMedQA - EM,Sepsis QA (ward 3) - EM\nm,0.5,0.75\nn,0.25,1\n")
    own = found.columns[1]
    assert (own.benchmark, own.title, own.category) == ("sepsis_qa_ward_3", "Sepsis QA (ward 3)", "unknown")
    assert texts(found.remarks) == ("Not part of the suite, so listed in the category `unknown`: Sepsis QA (ward 3).",)
    with pytest.raises(ConfigError, match="is already in column 2"):
        read(tmp_path, "Model,Sepsis QA - EM,SepsisQA - EM\nm,0.5,0.75\n")


def test_what_a_file_holds_cannot_drive_a_terminal(tmp_path: Path) -> None:
    text = "Model,PubMedQA - EM,\x1b[2JSepsis \u202eQA - EM\n\x1b]0;x\x07m,0\u200b.5,1\n"
    found = read(tmp_path, text)
    assert [(c.model, c.value) for c in found.cells] == [("]0;x m", 0.5), ("]0;x m", 1.0)]
    assert found.columns[1].title == "[2JSepsis QA"
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, "Model,PubMedQA - EM\nm,\x1b[31mred\x9b\n")
    assert not {"\x1b", "\x9b"} & set(str(caught.value))
    assert "`[31mred` is not a number" in str(caught.value)


def test_a_long_list_of_mistakes_is_cut(tmp_path: Path) -> None:
    rows = "".join(f"m{i},{'x' * 100}\n" for i in range(80))
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, f"Model,PubMedQA - EM\n{rows}")
    assert len(caught.value.problems) == 51
    assert caught.value.problems[-1].text == "And 30 more."
    assert f"`{'x' * 60}...` is not a number" in caught.value.problems[0].text


def test_empty_fields_are_missing_values(tmp_path: Path) -> None:
    text = "\ufeffModel,Mean win rate,PubMedQA - EM,ACI-Bench - Jury Score\r\n a ,,0.5,\r\n\r\nb,0.5, ,3\r\n"
    found = read(tmp_path, text)
    assert [(c.model, c.benchmark, c.cost_usd) for c in found.cells] == [
        ("a", "pubmed_qa", None),
        ("b", "aci_bench", None),
    ]
    assert found.win_rates == {"b": 0.5}


@pytest.mark.parametrize(("values", "scale"), [(("74.3%", "8 %"), (0, 1)), (("1", "4.5"), (1, 5)), (("", ""), (0, 1))])
def test_a_metric_that_is_not_known_goes_by_the_scale_its_values_fit(
    tmp_path: Path, values: tuple[str, str], scale: tuple[float, float]
) -> None:
    found = read(tmp_path, "Model,PubMedQA - Foo\nm,{}\nn,{}\n".format(*values))
    assert [(column.low, column.high) for column in found.columns] == [scale]
    said = f"Assumed to be on a scale from {scale[0]} to {scale[1]}, which fits the values: PubMedQA (Foo)."
    assert list(texts(found.remarks)) == ([said] if any(values) else [])


def test_values_on_no_known_scale_are_an_error_because_they_would_spoil_averages(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="column 3: the scale of `Bar` is not known, and the values of RaceBias"):
        read(tmp_path, "Model,PubMedQA - Foo,RaceBias - Bar\na,0.5,74.3\nb,0.25,0.5\n")


def test_all_problems_are_reported_at_once_with_line_and_column(tmp_path: Path) -> None:
    text = (
        "Name,Mean win rate,PubMedQA - EM,PubMedQB - EM,RaceBias,pubmed_qa - EM,ACI-Bench - Jury Score,Mean win rate\n"
        "a,1.5,high,0,0,0,0.5,\n"
        ",0.5,1.2.3,0,0,0,90%,\n"
        "a,0.5,0.5\n"
        "c,0.5,1e999,0,0,0,5.01,\n"
        "d,0.5,74.3,0,0,0,,\n"
    )
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    assert [(problem.line, problem.text) for problem in caught.value.problems] == [
        (1, "column 1 is `Name`; the first column must be `Model`."),
        (
            1,
            "column 4: unknown benchmark `PubMedQB`. Did you mean `PubMedQA`? If it is one of your own, give it a "
            "more distinct name.",
        ),
        (1, "column 5 is `RaceBias`; it must be `<title> - <metric>`, such as `RaceBias - EM`."),
        (1, "column 6: `pubmed_qa` is already in column 3."),
        (1, "column 8: `Mean win rate` is already in column 2."),
        (2, "PubMedQA: `high` is not a number. Write it like 0.743, or leave it empty."),
        (2, "ACI-Bench: 0.5 is outside 1 to 5."),
        (2, "Mean win rate: 1.5 is outside 0 to 1. If it is a percentage, write 1.5%."),
        (3, "column 1: the name of the model is missing."),
        (3, "PubMedQA: `1.2.3` is not a number. Write it like 0.743, or leave it empty."),
        (3, "ACI-Bench: `90%` is a percentage, but the scale is 1 to 5. Write the grade."),
        (4, "model `a` is already in line 2."),
        (4, "has 3 fields; the header has 8."),
        (5, "PubMedQA: `1e999` is not a number. Write it like 0.743, or leave it empty."),
        (5, "ACI-Bench: 5.01 is outside 1 to 5."),
        (6, "PubMedQA: 74.3 is outside 0 to 1. If it is a percentage, write 74.3%."),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("Model,PubMedQA - EM\n", "has only a header and no models"),
        ("Model,Mean win rate\nm,0.5\n", "No benchmark found"),
        ("Model,? - EM\nm,0.5\n", r"`\?` is not a title"),
        (",\nModel;x\n", r"line 2  column 2 is `x`"),
    ],
)
def test_files_without_content(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(tmp_path, text)


def test_a_path_without_a_file_is_refused(tmp_path: Path) -> None:
    for path, message in ((tmp_path / "absent.csv", "the file does not exist"), (tmp_path, "is a folder")):
        with pytest.raises(UserError, match=message):
            read_scores(path, SUITE)


def test_a_file_in_windows_1252_is_read_with_a_warning(tmp_path: Path) -> None:
    found = read(tmp_path, "Model,PubMedQA - EM\nDr. Müller,0.5\n".encode("cp1252"))
    assert [cell.model for cell in found.cells] == ["Dr. Müller"]
    assert "it was read as Windows-1252" in found.remarks[0].text
