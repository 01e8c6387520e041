"""Names from elsewhere: neither a terminal nor a reader of Markdown obeys them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.cli import Medhelm

HOSTILE = (
    "evil\x1b]0;t\x07\x9b31m\u202e<script>x</script>![x](http://h/p.png)[y](javascript:1)\n- [z]: javascript:2\n```"
)


@pytest.fixture
def store(medhelm: Medhelm, tmp_path: Path) -> Path:
    """A store with a run whose model has a hostile name, as imported logs can have."""
    folder = tmp_path / "store"
    names = [f"--model=baseline/{name}" for name in ("majority", "random")]
    assert medhelm("run", "pubmed_qa", "--tier", "sample", *names, "--store", folder).code == 0
    for file in folder.glob("runs/*/*/run.json"):
        content = json.loads(file.read_text(encoding="utf-8"))
        if content["model"] == "baseline/majority":
            file.write_text(json.dumps(content | {"model": HOSTILE}), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    "command",
    [
        ("leaderboard",),
        ("leaderboard", "--by", "head-to-head", "--format", "md"),
        ("cost",),
        ("compare", "evil", "baseline/random", "--format", "md"),
        ("show", "pubmed_qa", "nothing", "--model", "\x1b]0;t\x07"),
    ],
    ids=" ".join,
)
def test_hostile_names_are_harmless(medhelm: Medhelm, store: Path, command: tuple[str, ...]) -> None:
    shown = medhelm(*command, "--store", store)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", shown.out + shown.err)
    if "md" in command:
        assert "script" in shown.out
        assert not re.search(r"(?<!\\)<|(?<!\\)\]\[|(?<!\\)\][(:]", shown.out)


def test_a_card_with_hostile_names_is_harmless(medhelm: Medhelm, store: Path, tmp_path: Path) -> None:
    assert medhelm("export", "card", tmp_path / "card", "--store", store).code == 0
    text, _, command = (tmp_path / "card/card.md").read_text(encoding="utf-8").partition("## Command")
    assert not re.search(r"(?<!\\)<|(?<!\\)\]\[|(?<!\\)\][(:]|[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)
    assert re.findall("(?m)^ {0,3}```", command) == ["```", "```"]
    page = (tmp_path / "card/card.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in page.partition("<title>")[0]
    assert "<script" not in page
