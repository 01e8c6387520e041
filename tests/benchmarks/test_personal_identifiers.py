"""Presidio with a small pipeline made here: what the patterns miss is found, and nothing is downloaded."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from medhelm.benchmarks.data_quality import IDENTIFIERS, kinds_by_pattern, presidio_search
from medhelm.errors import MissingError, UserError
from tests.support.cli import Medhelm

pytestmark = [
    pytest.mark.skipif(find_spec("presidio_analyzer") is None, reason="spaCy and Presidio are in the dev group only"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A pipeline that knows one person and one town, in place of a trained one, which cannot be downloaded here."""
    import spacy  # takes two seconds: not while tests are collected, which each process does

    made: Any = spacy.blank("en")
    rules = [{"label": "PERSON", "pattern": "Maria Gomez"}, {"label": "GPE", "pattern": "Springfield"}]
    made.add_pipe("entity_ruler").add_patterns(rules)
    folder = tmp_path_factory.mktemp("pipeline") / "en_two_names"
    made.to_disk(folder)
    return str(folder)


@pytest.mark.long
def test_names_without_a_title_are_found(pipeline: str) -> None:
    search = presidio_search(pipeline)
    text = "Maria Gomez of Springfield came two days ago. Her card is 4012888888881881."
    assert kinds_by_pattern(text) == []
    assert list(search(text)) == ["a name", "a place", "an account number"]
    assert list(search("The patient came two days ago with chest pain, BP 120/80.")) == []


def test_a_pipeline_that_is_not_installed_is_not_downloaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("spacy.cli.download", lambda *_, **__: pytest.fail("a download"))
    with pytest.raises(MissingError, match=r"--presidio en_core_none: no spaCy pipeline of this name is installed"):
        presidio_search("en_core_none")
    with pytest.raises(UserError, match="spaCy cannot load this pipeline"):
        presidio_search(str(tmp_path))


@pytest.mark.long
def test_the_check_says_what_presidio_looked_for(medhelm: Medhelm, pipeline: str) -> None:
    done = medhelm("benchmarks", "check", "pubmed_qa", "--tier", "sample", "--presidio", pipeline)
    words = " ".join(done.out.split())
    assert done.code == 0
    assert "Presidio looked for PERSON, LOCATION" in words
    assert "names without a title" not in words
    found = medhelm("benchmarks", "check", "pubmed_qa", "--tier", "sample", "--json").json
    assert found["identifier_search"]["presidio"] == []
    assert len(found["identifier_search"]["searched"]) == len(IDENTIFIERS)
