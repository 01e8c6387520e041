"""Ratings files: what is read, and every problem at once, each with its line, value, rule and fix."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest

from medhelm.errors import ConfigError
from medhelm.results.ratings import SHOWN, RatedBenchmark, Ratings, read_ratings
from tests.support.remarks import texts

ACI = RatedBenchmark(name="aci_bench", criteria=("accuracy", "completeness", "clarity"), models=("lab/a", "lab/b"))
NOTES = RatedBenchmark(name="note_extract", criteria=("accuracy", "structure"), models=("lab/a",))
KNOWN = {
    "aci_bench": ACI,
    "aci": ACI,
    "note_extract": NOTES,
    "healthbench": RatedBenchmark(name="healthbench", criteria=(), low=0, high=1, models=("lab/a",), in_points=True),
    "mediqa_qa": RatedBenchmark(name="mediqa_qa", criteria=("accuracy",)),
}
HEADER = "rater,instance_id,benchmark,model,accuracy,completeness,clarity"


def instances(benchmark: str, model: str) -> Collection[str]:
    assert model in KNOWN[benchmark].models
    return {"D1", "D2", "D3"}


def read(folder: Path, *lines: str, scale: tuple[float, float] | None = None) -> Ratings:
    path = folder / "ratings.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return read_ratings(path, KNOWN, instances, scale=scale)


def problems(folder: Path, *lines: str) -> list[tuple[int | None, str]]:
    with pytest.raises(ConfigError) as caught:
        read(folder, *lines)
    return [(problem.line, problem.text) for problem in caught.value.problems]


def test_a_sound_file(tmp_path: Path) -> None:
    rows = (
        "Dr A,D1,aci_bench,lab/a,5,4,3,,0.25",
        "Dr B,D1,aci,lab/a,4.5,,1,,0.25",
        "Dr B,D2,note_extract,lab/a,1,,,3,1",
    )
    found = read(tmp_path, f"{HEADER},structure,probability", *rows)
    cases = [("aci_bench", "lab/a", "D1"), ("aci_bench", "lab/a", "D1"), ("note_extract", "lab/a", "D2")]
    assert [row.case for row in found.rows] == cases
    assert found.rows[1].grades == {"accuracy": 4.5, "completeness": None, "clarity": 1.0}
    assert found.rows[2].grades == {"accuracy": 1.0, "structure": 3.0}
    assert [(row.line, row.probability) for row in found.rows] == [(2, 0.25), (3, 0.25), (4, 1.0)]
    assert (list(found.benchmarks), found.has_jury, found.rows[0].jury) == (["aci_bench", "note_extract"], False, {})
    assert texts(found.remarks) == (
        "1 grade was not given (completeness 1); a rating without all grades has no composite",
    )
    assert read(tmp_path, HEADER, GOOD).rows[0].probability is None


@pytest.mark.parametrize(
    "lines",
    [
        ("Rater ; Instance-ID;BENCHMARK;model;Accuracy;completeness;clarity", "A;D1;aci_bench;lab/a;4,5;3,0;1"),
        ("username,team,instance_id,dataset_name,model_key,accuracy,completeness,clarity,note",
         'A,T1,D1,aci_bench,lab/a,4.5,3,1,"long, ""quoted"""'),
    ],
    ids=["semicolons", "published names"],
)  # fmt: skip
def test_other_ways_to_write_it(tmp_path: Path, lines: tuple[str, ...]) -> None:
    (row,) = read(tmp_path, *lines).rows
    assert (row.rater, *row.case) == ("A", "aci_bench", "lab/a", "D1")
    assert row.grades == {"accuracy": 4.5, "completeness": 3.0, "clarity": 1.0}


JURY_HEADER = HEADER + ",jury_accuracy,jury_completeness,llm_clarity"


def test_a_file_with_the_jurys_grades_may_name_unknown_benchmarks(tmp_path: Path) -> None:
    found = read(tmp_path, JURY_HEADER, "A,i1,own study,anybody,5,4,3,4.5,4,3", "B,i1,own study,anybody,5,4,3,4.5,,3")
    assert found.has_jury
    assert found.benchmarks["own study"].criteria == ("accuracy", "completeness", "clarity")
    assert found.rows[0].jury == {"accuracy": 4.5, "completeness": 4.0, "clarity": 3.0}
    assert texts(found.remarks) == (
        "the rubric of own study is unknown: grades are assumed to be 1 to 5, higher is better",
    )


def test_grades_on_another_scale_are_converted_where_that_is_said(tmp_path: Path) -> None:
    found = read(tmp_path, HEADER, "A,D1,aci_bench,lab/a,0,50,100", scale=(0, 100))
    assert list(found.rows[0].grades.values()) == [1.0, 3.0, 5.0]
    assert texts(found.remarks) == ("aci_bench: grades from 0 to 100 were converted to 1 to 5",)


def test_a_file_that_is_not_utf_8_and_names_spelled_in_two_ways_are_remarked(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    rows = ["Dr Müller,D1,aci_bench,lab/a,5,4,3", "dr  müller,D2,aci_bench,lab/a,5,4,3"]
    path.write_bytes("\n".join([HEADER, *rows]).encode("cp1252"))
    assert texts(read_ratings(path, KNOWN, instances).remarks) == (
        "the file is not UTF-8; it was read as Windows-1252",
        "`Dr Müller` and `dr  müller` are counted as different raters",
    )


GOOD = "A,D1,aci_bench,lab/a,5,4,3"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([HEADER], [(1, "no rating")]),
        (["rater,instance,benchmark,modle,accuracy,completeness,clarity", GOOD],
         [(1, "column `model` is missing. Did you mean `modle`?")]),
        ([HEADER + ",clarity", GOOD + ",1"], [(1, "column `clarity` appears twice")]),
        ([HEADER + ",probability", GOOD + ",0.5", "B,D1,aci_bench,lab/a,4,4,3,0.25", "A,D2,aci_bench,lab/a,4,4,3,1.5"],
         [(3, "probability: aci_bench D1 of lab/a has 0.25 here and 0.5 in line 2."),
          (4, "probability: must be above 0 and at most 1, is `1.5`.")]),
        ([HEADER + ",probability", GOOD + ","], [(2, "probability: is empty. Every rating needs one.")]),
        ([HEADER, "A,D1,aci_bench,lab/a,5,4,x", "A,D1,aci_bench,lab/a,5,4,7", "A,D3,,lab/a,1,1,1"],
         [(2, "clarity: must be a number, is `x`."), (3, "clarity: must be from 1 to 5"), (3, "rater `A` rated"),
          (4, "benchmark: is empty.")]),
        ([HEADER, "A,D1,aci_bench,lab/a,5,4"], [(2, "the row has 6 cells, the header 7.")]),
        ([HEADER, "A,D1,aci_bnch,lab/a,5,4,3"],
         [(2, "benchmark: `aci_bnch` is unknown. Did you mean `aci_bench`?")]),
        ([HEADER, "A,D1,mediqa_qa,lab/a,5,4,3"],
         [(2, "the store has no run of `mediqa_qa` with judges. `medhelm run --judge` makes one, or add what the jury "
              "gave as columns jury_accuracy.")]),
        ([HEADER, "A,D1,healthbench,lab/a,5,4,3"], [(2, "benchmark `healthbench` is graded in points")]),
        ([HEADER, "A,D1,aci_bench,lab/c,5,4,3", "B,D1,aci_bench,lab/c,5,4,3"],
         [(2, "model: the store has no judged run of `lab/c` on aci_bench. Did you mean `lab/b`? (1 more rows")]),
        ([HEADER, "A,D9,aci_bench,lab/a,5,4,3"],
         [(2, "instance_id: the run of lab/a on aci_bench has no instance `D9`. Known: D1, D2, D3.")]),
        ([HEADER, GOOD, "B,D1,aci_bench,lab/a,85,90,3", "B,D2,aci_bench,lab/a,85,90,70"],
         [(3, "rater `B` uses another scale: 5 of 6 grades are outside 1 to 5, from 3 to 90. Convert")]),
        ([HEADER, "A,D1,aci_bench,lab/a,good,N/A,nan", "A,D2,aci_bench,lab/a,\"4,5\",1e0,5"],
         [(2, "accuracy: must be a number, is `good`. Leave it empty if the grade is missing."),
          (2, "completeness: must be a number, is `N/A`."), (2, "clarity: must be a number, is `nan`."),
          (3, "accuracy: must be a number, is `4,5`. Write 4.5, not 4,5."),
          (3, "completeness: must be a number, is `1e0`.")]),
        ([JURY_HEADER, GOOD + ",1,1,1", "B,D1,aci_bench,lab/a,5,4,3,1,2,1"],
         [(3, "the jury's completeness of aci_bench D1 of lab/a is 2 here and 1 in line 2.")]),
        ([JURY_HEADER, GOOD + ",0.9,0.8,1"], [(2, "the jury uses another scale: 2 of 3 grades are outside")]),
    ],
)  # fmt: skip
def test_problems(tmp_path: Path, lines: list[str], expected: list[tuple[int, str]]) -> None:
    found = problems(tmp_path, *lines)
    assert len(found) == len(expected)
    for (line, text), (expected_line, words) in zip(found, expected, strict=True):
        assert line == expected_line
        assert words in text


def test_many_problems_of_a_kind_are_counted(tmp_path: Path) -> None:
    unknown = problems(tmp_path, HEADER, *(f"A,X{n},aci_bench,lab/a,5,4,3" for n in range(SHOWN + 5)))
    assert len(unknown) == SHOWN + 1
    assert unknown[-1] == (SHOWN + 2, "... and 5 more unknown names.")


def test_the_message_in_the_documents_is_the_one_printed(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "agreement.md").read_text(encoding="utf-8")
    shown = " ".join(page.partition("medhelm: ratings.csv has 4 problems")[2].partition("```")[0].split())
    given = (
        "Dr Abel 086 5 4 5, Dr Chen 087 60 75 90, Dr Abel 088 4 4 5, Dr Brandt 86 3 4 5, Dr Chen 089 80 85 90, "
        "Dr Brandt 087 3 4 5, Dr Brandt 088 3 4 5, Dr Brandt 089 3 4 good, Dr Abel 090 3 4 5, Dr Abel 091 3 4 5, "
        "Dr Abel 088 3 4 5"
    )
    lines = []
    for rating in given.split(", "):
        title, name, instance, *grades = rating.split()
        lines.append(f"{title} {name},D2N{instance},aci_bench,lab/model-a,{','.join(grades)}")
    path = tmp_path / "ratings.csv"
    path.write_text("\n".join([HEADER, *lines]) + "\n", encoding="utf-8")
    known = RatedBenchmark(name="aci_bench", criteria=ACI.criteria, models=("lab/model-a",))
    with pytest.raises(ConfigError) as caught:
        read_ratings(path, {"aci_bench": known}, lambda *_: [f"D2N0{n}" for n in range(86, 96)])
    assert " ".join(str(caught.value).partition("problems")[2].split()) == shown
