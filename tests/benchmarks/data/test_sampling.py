"""Which instances are evaluated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import RandomState

from medhelm.benchmarks.data.sampling import InstanceSelection, SampleOptions, select_instances
from medhelm.domain import Benchmark, SampleRule
from medhelm.errors import DataError, UserError
from tests.support.benchmarks.definitions import make_benchmark


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    source = {"location": "https://example.org/{file}"}
    return make_benchmark(tmp_path_factory.mktemp("definitions"), source=source)


def chosen(benchmark: Benchmark, sample: SampleRule, n: int, **changes: Any) -> InstanceSelection:
    """What is selected of n instances, if not other ids are given."""
    ids = {f"id{i}": i for i in range(n)}
    words = {"ids": ids, "folder": Path(), **changes}
    return select_instances(sample, benchmark=benchmark, **words)


def order(selection: InstanceSelection) -> list[int]:
    return list(range(selection.n) if selection.order is None else selection.order)


def test_a_draw_is_the_head_of_a_permutation_in_its_order(benchmark: Benchmark) -> None:
    for n, size, seed in [(2675, 1000, 0), (12, 5, 7), (2, 1, 3)]:
        selection = chosen(benchmark, SampleRule(size=size), n, options=SampleOptions(seed=seed))
        assert order(selection) == RandomState(seed).permutation(n)[:size].tolist()
        assert (selection.n, selection.n_total) == (size, n)


def test_the_draw_behind_published_scores(benchmark: Benchmark) -> None:
    """Numbers written down once, so that another version of numpy cannot change them unseen."""
    assert order(chosen(benchmark, SampleRule(size=5), 10)) == [2, 8, 4, 9, 1]
    assert order(chosen(benchmark, SampleRule(size=6), 1000)) == [993, 859, 298, 553, 672, 971]


def test_of_a_larger_pool_only_available_instances_are_drawn(benchmark: Benchmark) -> None:
    selection = chosen(benchmark, SampleRule(size=1000, pool=2545, offset=1272), 1273)
    drawn = RandomState(0).permutation(2545)[:1000].tolist()
    assert order(selection) == [p - 1272 for p in drawn if p >= 1272]
    whole = chosen(benchmark, SampleRule(size=2545, pool=2545, offset=1272), 1273)
    assert order(whole) == list(range(1273)), "no draw, so the order of the data"


@pytest.mark.parametrize("content", [["id7", "id2", "id2"], {"id7": "yes", "id2": "no"}])
def test_ids_from_a_file_in_the_order_of_the_data(benchmark: Benchmark, tmp_path: Path, content: object) -> None:
    (tmp_path / "ids.json").write_text(json.dumps(content), encoding="utf-8")
    selection = chosen(benchmark, SampleRule(ids_file="ids.json"), 10, folder=tmp_path)
    assert order(selection) == [2, 7]
    assert len(selection.ids_digest) == 64


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[1, 2", "not JSON"),
        ('["id1", "x1", "x2"]', "names 2 ids that the data lacks: x1, x2"),
        ("[]", "none of the 10 instances"),
    ],
)
def test_a_file_of_ids_that_is_wrong(benchmark: Benchmark, tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "ids.json").write_text(text, encoding="utf-8")
    with pytest.raises(DataError) as caught:
        chosen(benchmark, SampleRule(ids_file="ids.json"), 10, folder=tmp_path)
    assert words in str(caught.value)


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_seeds_have_bounds(benchmark: Benchmark, seed: int) -> None:
    with pytest.raises(UserError, match="the seed must be between 0 and 4294967295"):
        chosen(benchmark, SampleRule(size=2), 3, options=SampleOptions(seed=seed))


@given(n=st.integers(1, 30), size=st.integers(1, 60), seed=st.integers(0, 99))
def test_the_draws_of_the_parts_of_a_pool_add_up_to_its_draw(
    benchmark: Benchmark, n: int, size: int, seed: int
) -> None:
    """Two data sets side by side, drawn from together: what each part takes is what the whole takes."""
    whole = set(order(chosen(benchmark, SampleRule(size=size), 2 * n, options=SampleOptions(seed=seed))))
    parts: set[int] = set()
    for offset in (0, n):
        try:
            part = order(
                chosen(benchmark, SampleRule(size=size, pool=2 * n, offset=offset), n, options=SampleOptions(seed=seed))
            )
        except DataError:
            continue
        parts |= {p + offset for p in part}
    assert parts == whole


# --- random subsets ---------------------------------------------------------------------------------------------------


def subset(benchmark: Benchmark, names: list[str], size: int, *, seed: int = 0) -> list[str]:
    ids = {name: i for i, name in enumerate(names)}
    found = chosen(benchmark, SampleRule(), len(names), ids=ids, options=SampleOptions(seed=seed, subset=size))
    assert found.n == min(size, len(names))
    return [names[position] for position in order(found)]


def test_a_subset_contains_smaller_ones_in_the_order_of_the_data(benchmark: Benchmark) -> None:
    names = [f"q{i}" for i in range(500)]
    small, large = (subset(benchmark, names, size, seed=7) for size in (100, 200))
    assert set(small) < set(large)
    assert large == sorted(large, key=names.index)
    assert large != names[:200]
    assert 60 < sum(int(name[1:]) < 250 for name in large) < 140
    assert set(large) != set(subset(benchmark, names, 200, seed=8))
    assert subset(benchmark, names, 500) == names


def test_a_subset_depends_on_ids_and_not_on_positions(benchmark: Benchmark) -> None:
    names = [f"q{i}" for i in range(500)]
    more = ["new", *reversed(names)]
    assert len(set(subset(benchmark, names, 200)) - set(subset(benchmark, more, 200))) <= 1


# --- groups -----------------------------------------------------------------------------------------------------------


def of_groups(benchmark: Benchmark, groups: list[int], *, size: int | None, limit: int | None = None) -> list[int]:
    return order(
        chosen(benchmark, SampleRule(size=size), len(groups), groups=groups, options=SampleOptions(limit=limit))
    )


def test_every_group_has_a_draw_of_its_own(benchmark: Benchmark) -> None:
    groups = [0] * 10 + [1] * 12
    drawn = [int(i) for i in RandomState(0).permutation(10)[:5]]
    others = [10 + int(i) for i in RandomState(0).permutation(12)[:5]]
    assert of_groups(benchmark, groups, size=5) == drawn + others


@pytest.mark.parametrize(
    ("size", "limit", "expected"), [(None, 2, [0, 4]), (None, 3, [0, 1, 4]), (None, 5, [0, 1, 2, 4, 5]), (4, 2, [0, 4])]
)
def test_a_limit_takes_evenly_from_the_groups(
    benchmark: Benchmark, size: int | None, limit: int, expected: list[int]
) -> None:
    groups = [0, 0, 0, 0, 1, 1]
    assert of_groups(benchmark, groups, size=size, limit=limit) == expected
