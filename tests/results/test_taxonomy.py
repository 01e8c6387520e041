"""The taxonomy, and what of it is covered."""

from __future__ import annotations

from pathlib import Path

from medhelm.benchmarks.suites import load_suite
from medhelm.benchmarks.taxonomy import load_taxonomy
from medhelm.results.catalog import coverage
from tests.support.benchmarks.choice import make_benchmark
from tests.support.benchmarks.library import NAMES, benchmark
from tests.support.cli import Medhelm


def test_the_taxonomy_has_five_categories_22_subcategories_and_each_task_once() -> None:
    categories = load_taxonomy()
    assert [len(category.subcategories) for category in categories] == [4, 4, 5, 5, 4]
    assert [sum(sub.points for sub in category.subcategories) for category in categories] == [24, 7, 10, 7, 8]
    assert all(category.definition and category.criterion and category.performers for category in categories)
    tasks = [task for category in categories for sub in category.subcategories for task in sub.tasks]
    assert len(tasks) == len(set(tasks)) == 116
    assert not any(sign in task for task in tasks for sign in ",;/.")


def test_every_subcategory_has_a_benchmark_and_every_benchmark_one_of_its_tasks() -> None:
    found = coverage([benchmark(name) for name in NAMES], None)
    assert len(found.categories) == 5
    n = 0
    for subcategory, benchmarks in found.places:
        assert benchmarks, subcategory.id
        for covering in benchmarks:
            assert covering.benchmark.taxonomy.task in subcategory.tasks, covering.benchmark.name
            n += 1
    assert n == len(load_suite()) == 37


def test_the_command_says_what_is_here_and_why_not(medhelm: Medhelm, data_dir: Path) -> None:
    tree = medhelm("taxonomy", "--data", data_dir, "--json").json
    subcategories = [sub for category in tree["categories"] for sub in category["subcategories"]]
    benchmarks = {benchmark["name"]: benchmark for sub in subcategories for benchmark in sub["benchmarks"]}
    assert (benchmarks["pubmed_qa"]["instances"], benchmarks["pubmed_qa"]["here"]) == (1000, True)
    assert not benchmarks["ehrshot"]["here"]
    assert "under an agreement" in benchmarks["ehrshot"]["why_not"]
    assert "    - Perform medical calculations" in medhelm("taxonomy", "--tasks").out


def test_a_benchmark_of_the_user_is_listed_in_its_subcategory(medhelm: Medhelm, tmp_path: Path) -> None:
    make_benchmark(tmp_path / "own", name="ours")
    other = make_benchmark(tmp_path / "own", name="new_field")
    definition = other / "benchmark.yaml"
    text = definition.read_text(encoding="utf-8").replace("clinical_decision_support", "pet_care")
    definition.write_text(text.replace("planning_treatments", "small_animals"), encoding="utf-8")
    categories = medhelm("taxonomy", "--benchmarks", tmp_path / "own", "--json").json["categories"]
    planning = next(sub for sub in categories[0]["subcategories"] if sub["id"] == "planning_treatments")
    assert "ours" in [benchmark["name"] for benchmark in planning["benchmarks"]]
    assert categories[-1]["title"] == "Pet care"
    assert [benchmark["name"] for benchmark in categories[-1]["subcategories"][0]["benchmarks"]] == ["new_field"]
