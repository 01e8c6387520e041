"""The static site holds no text that must not leave, nothing of cases beyond its limit, and safe names of files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from medhelm.domain import Completion, Instance, Message, Prompt, Reference
from medhelm.extensions.web.cases.case import open_cases
from medhelm.extensions.web.cases.listing import find_cases, instructive_cases
from medhelm.extensions.web.cases.search import CaseSearch
from medhelm.extensions.web.export import export_site
from medhelm.extensions.web.site import Site
from medhelm.storage.live_status import JudgeProgress
from medhelm.storage.runs import write_prompts
from medhelm.storage.store import Store
from tests.support.cli import Medhelm
from tests.support.running import make_run, make_status, written
from tests.support.stores import add_judged_runs, grades, make_record, make_store, scored_run, write_run
from tests.support.web.random_cases import write_choices
from tests.support.web.sites import XSS, make_client, static_page

CANARY = "CANARY-51c9"


def test_texts_that_are_not_public_enter_only_when_they_are_asked_for(tmp_path: Path, medhelm: Medhelm) -> None:
    store, site = tmp_path / "store", tmp_path / "site"
    run = scored_run("wards", "openai/a", [1.0, 0.0], groups={CANARY: {"corrected": 0.5, "n": 2}}, message=CANARY)
    said = Completion(text=f"{CANARY} says")
    records = [make_record(n, instance_id=f"{CANARY}-{n}", group=CANARY, completion=said) for n in range(2)]
    write_run(store, run, records)
    done = export_site(Site(stores=[store], with_text=False), site, most_cases=3)
    assert any("Only numbers" in remark for remark in done.remarks)
    for path in site.rglob("*"):
        assert CANARY not in path.name
        assert not path.is_file() or CANARY.encode() not in path.read_bytes(), path
    with_text = medhelm("export", "site", site, "--store", store, "--with-text")
    assert "Contains prompts and completions" in with_text.err
    assert any(CANARY.encode() in path.read_bytes() for path in site.rglob("*.html"))


def test_hostile_names_are_text_on_every_page_and_make_safe_files(tmp_path: Path) -> None:
    names = [*XSS, "../../../etc", "a" * 300, "line\nbreak", "%2e%2e", "con"]
    store = make_store(tmp_path / "store", {"pubmed_qa": {f"openai/{name}": [1.0, 0.0, 1.0] for name in names}})
    judges, models = [f"openai/{one}" for one in XSS[:3]], [f"openai/{one}" for one in XSS[3:]]
    add_judged_runs(store, "aci_bench", grades(1, 6, models, judges), models=models, judges=judges)
    progress = {one: JudgeProgress(expected=1, failed=1) for one in XSS}
    runs = tuple(make_run(model=f"openai/{one}", benchmark=one, failures={one: 1}, judges=progress) for one in XSS)
    client = make_client(store)
    with written(Store(store), make_status(id='"><script>alert(1)<script>', runs=runs, command=XSS, host=XSS[0])):
        for path in (
            *("/", f"/?model={XSS[0]}", "/compare", "/running", "/judges", "/data"),
            *("/benchmarks/aci_bench", "/benchmarks/aci_bench/judges"),
        ):
            found = client.get(path)
            assert found.status_code == 200, path
            assert not re.search(r"<script>alert|<img|<svg onload|onmouseover='|62710561", found.text), path
    export_site(Site(stores=[store], with_text=False), tmp_path / "site")
    assert {path.name for path in tmp_path.iterdir()} == {"store", "site"}
    for file in (tmp_path / "site").rglob("*"):
        assert re.fullmatch(r"[\w.~-]{1,120}", file.name)
        assert file.suffix != ".html" or "<script>alert" not in file.read_text(encoding="utf-8")


def canary(place: int, what: str) -> str:
    return f"CANARY-{what}-{place:02d}"


def write_canaries(folder: Path, n: int) -> None:
    """Write cases whose ids, prompts, options, completions and references are canaries."""
    for model in ("lab/a", "lab/b", "lab/c"):
        said = [Completion(text=f"{canary(place, 'COMPLETION')} of {model}") for place in range(n)]
        run = scored_run("wards", model, [float(place % 3 == len(model) % 2) for place in range(n)])
        records = [
            make_record(place, instance_id=canary(place, "ID"), completion=said[place], scores=()) for place in range(n)
        ]
        stored = write_run(folder, run, records)
    path = Store(folder).prompts_file("wards", stored.benchmark_digest, stored.data_digest)
    references = [(Reference(canary(place, "REFERENCE")),) for place in range(n)]
    rows = (
        (
            Instance(id=canary(place, "ID"), fields={}, references=references[place]),
            Prompt((Message("user", f"Read. {canary(place, 'PROMPT')} Answer."),)),
        )
        for place in range(n)
    )
    write_prompts(path, rows)


@pytest.mark.parametrize(
    ("most", "with_text", "reason"),
    [
        (0, True, "--cases 0"),
        (3, True, "These files hold 3 cases of 12"),
        (9, False, "without <code>--with-text</code>"),
    ],
)
def test_nothing_of_other_cases_is_in_any_file(tmp_path: Path, most: int, with_text: bool, reason: str) -> None:
    store, site = tmp_path / "store", tmp_path / "site"
    write_canaries(store, 12)
    done = export_site(Site(stores=[store], with_text=with_text), site, most_cases=most)
    kept = set(instructive_cases(open_cases([store], "wards"), most)) if with_text else set()
    assert done.counts["cases"] == len(kept)
    written_ = b"".join(str(path).encode() + path.read_bytes() for path in site.rglob("*") if path.is_file())
    for place in range(12):
        name = canary(place, "ID")
        names = [name.lower().encode(), *(canary(place, what).encode() for what in ("ID", "PROMPT", "COMPLETION"))]
        assert {one in written_ for one in names} == {name in kept}, name
    assert (b"CANARY" in written_) == bool(kept)
    assert reason in (site / "benchmarks" / "wards" / "cases.html").read_text(encoding="utf-8"), "the page says why"
    if not kept:
        assert reason in (site / "not-exported.html").read_text(encoding="utf-8")


def test_the_list_says_how_many_failed_cases_are_left_out(tmp_path: Path) -> None:
    write_choices(tmp_path, 3, n=40)
    cases = open_cases([tmp_path], "toy")
    failed = {item.row.instance_id for item in find_cases(cases, CaseSearch(show="failed")).items}
    n = len(failed - set(instructive_cases(cases, 4)))
    assert n > 1
    page = static_page(Site(stores=[tmp_path]), "cases", benchmark="toy", most_cases=4)
    assert f"{n} cases with a failed request are left out." in page
    served = make_client(tmp_path).get("/benchmarks/toy/case-index/1.js")
    assert served.status_code == 404, "the server does not send the index"
