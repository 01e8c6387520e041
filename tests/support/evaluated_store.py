"""A store made by runs against a fake server, with a case of everything that an export has to carry."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.benchmarks.choice import chat, make_benchmark, perfect
from tests.support.benchmarks.judged import grades_of, is_judge, number, verdict, write_benchmark
from tests.support.cli import Medhelm
from tests.support.servers.openai import Answer, Server

JUDGES = ("judge-1", "judge-2", "judge-3")
FORMULA = '=HYPERLINK("http://x.test","patient, 47")\nsecond line'
"""A completion that a spreadsheet would run."""


def answer(body: Mapping[str, Any]) -> Answer:
    """Model `a` is right, `b` says A; question 4 fails for `b`; the answer to letter 5 is blank, to letter 6 a formula;
    judge-3 cannot be read on letter 7, and no judge on letter 8.
    """
    question = number(body)
    if is_judge(body):
        if question == 8 or (question == 7 and body["model"] == "judge-3"):
            return chat("no idea")
        low, middle, high = grades_of(body["model"], question)
        return chat(verdict(low, middle, high))
    lettered = "A. good" in body["messages"][-1]["content"]
    if not lettered:
        words = {5: "", 6: FORMULA}
        return chat(words.get(question, f"An answer to number {question} by {body['model']}"))
    if body["model"] == "b" and question == 4:
        return Answer(status=400, body={"error": {"message": "content filter", "code": "content_filter"}})
    return chat(perfect(question) if body["model"] == "a" else "A")


def copy_of_store(medhelm: Medhelm, folder: Path, template: Path) -> Path:
    """Copy such a store and its benchmarks to `folder`; the first call makes it in `template`."""
    if not (template / "port").exists():
        with Server() as server:
            make_store(medhelm, server, template)
            (template / "port").write_text(str(server.port), encoding="utf-8")
    shutil.copytree(template, folder, dirs_exist_ok=True)
    return folder / "store"


def port_of(store: Path) -> str:
    """The port that the models of such a store were reached at."""
    return (store.parent / "port").read_text(encoding="utf-8")


def make_store(medhelm: Medhelm, server: Server, folder: Path, *, n: int = 9) -> Path:
    """Two models on three benchmarks: letters of options, the same in two groups, and text that three judges grade."""
    server.answer_with(answer)
    plain = make_benchmark(folder, name="toy", n=n)
    grouped = make_benchmark(folder, name="grouped", n=n, extra="group: topic\n")
    written = write_benchmark(folder, n=n)
    models = [word for name in ("a", "b") for word in ("--model", f"openai/{name}@{server.url}/v1")]
    judges = [word for name in JUDGES for word in ("--judge", f"openai/{name}@{server.url}/v1")]
    store = folder / "store"
    done = medhelm("run", plain, grouped, written, *models, *judges, "--store", store, "--attempts", "1")
    assert done.code in (0, 1), done.err
    return store
