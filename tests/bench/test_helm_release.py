"""The invented release is read as a release of HELM, with the numbers it was made with."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.tools.helm_release import CRITERIA, JUDGES, grade, is_right, write_release
from medhelm.extensions.exchange.helm.importer import import_helm
from medhelm.storage.judgments import read_judgments
from medhelm.storage.runs import read_records


def test_every_number_of_a_release_is_taken_in(tmp_path: Path) -> None:
    assert write_release(tmp_path / "out", benchmarks=3, models=2, instances=7) == 6
    done = import_helm(tmp_path / "out" / "releases" / "v1", store=tmp_path / "store")
    assert (done.skipped, len(done.taken)) == ((), 6)
    for one in done.taken:
        assert one.remarks == ()
        model = int(one.run.model.rpartition("-")[2])
        records = list(read_records(one.run))
        assert len(records) == 7
        if one.run.jury_result is None:
            assert [row["exact_match_published"] for row in records] == [float(is_right(i, model)) for i in range(7)]
            continue
        grades = [[grade(i, model, j, c) for j in range(len(JUDGES)) for c in range(len(CRITERIA))] for i in range(7)]
        assert [row["jury_published"] for row in records] == pytest.approx([sum(own) / len(own) for own in grades])
        assert list(read_judgments(one.run).scores) == [float(score) for own in grades for score in own]
