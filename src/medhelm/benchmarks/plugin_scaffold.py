"""Create a package of plug-ins: one provider, metric or benchmark that works, with its tests."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path

from medhelm.errors import UserError
from medhelm.io.output_folder import atomic_folder, output_errors

KINDS = ("provider", "metric", "benchmark")
"""Kinds of plug-ins."""

_ENTRY_POINTS: Mapping[str, str] = {
    "provider": 'ward = "medhelm_ward.provider:open_ward"',
    "metric": 'ward = "medhelm_ward.metric:WARD"',
    "benchmark": 'ward_benchmarks = "medhelm_ward.benchmarks"',
}
"""Kind -> its entry point. In all templates `ward` is replaced with the name of the plug-in."""

_PROJECT = """\
# Plug-ins for MedHELM. Install: pip install -e .     Check: medhelm plugins     Test: pytest
[build-system]
requires = ["hatchling>=1.25"]
build-backend = "hatchling.build"

[project]
name = "medhelm-ward"
version = "0.1.0"
description = "Plug-ins for MedHELM."
requires-python = ">=3.11"
dependencies = ["medhelm-eval"]
@@
[tool.hatch.build.targets.wheel]
packages = ["src/medhelm_ward"]
"""

_PROVIDER = '''\
"""A model server with a wire format of its own: {"model", "question", "limit"} -> {"answer", "tokens": [in, out]}."""

from __future__ import annotations

from medhelm.domain import Completion, Model, Request, Usage
from medhelm.errors import ProviderError, UserError
from medhelm.io.http.client import HttpClient, read_json
from medhelm.models.provider import Provider
from medhelm.models.providers import ProviderContext


class Ward(Provider):
    """Sends one request once. MedHELM adds cache, budget, rate limits, retries and the egress policy."""

    def __init__(self, model: Model, http: HttpClient, key: str) -> None:
        """Keep the address and the client; `key` is sent if there is one."""
        self.endpoint = model.base_url
        self._http = http
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}

    async def complete(self, request: Request) -> Completion:
        """Send one request and read the completion. Raises: ProviderError if there is none."""
        question = "\\n\\n".join(message.text for message in request.prompt.messages)
        payload = {"model": request.model.remote_name, "question": question, "limit": request.max_tokens}
        response = await self._http.post_json(f"{self.endpoint}/answer", headers=self._headers, payload=payload)
        if response.status == 401:
            raise ProviderError("bad_key", "the server does not accept this key", fatal=True)
        if response.status >= 400:
            raise ProviderError("server_error", f"status {response.status}", retryable=response.status >= 500)
        body = read_json(response)
        n_input, n_output = body["tokens"]
        return Completion(
            text=body["answer"],
            finish_reason="stop",
            usage=Usage(input=n_input, output=n_output),
            latency_s=response.latency_s,
        )


def open_ward(model: Model, context: ProviderContext) -> Provider:
    """Open `ward/NAME@http://HOST`. Raises: UserError for a model without an address."""
    if not model.base_url:
        raise UserError(f"{model.name} needs an address: write {model.name}@http://..., or `base_url` in models.yaml.")
    return Ward(model, context.http, context.value_of(model.key_variable))
'''

_METRIC = '''\
"""A metric: the share of the terms of the reference, separated by semicolons, that a completion names."""

from __future__ import annotations

from medhelm.domain import Instance
from medhelm.errors import DataError
from medhelm.scoring.metric import Metric


def corrected(completion: str, instance: Instance) -> float:
    """Return the share of terms that the completion names, in any case; 0.0 for an empty completion.

    Raises: DataError if the reference has no terms: then no completion can be scored.
    """
    terms = [term.strip().lower() for reference in instance.correct for term in reference.split(";") if term.strip()]
    if not terms:
        raise DataError("the reference has no terms")
    return sum(term in completion.lower() for term in terms) / len(terms)


WARD = Metric(
    name="ward",
    title="Ward title",
    description="Share of the terms of the reference that the completion names. An empty completion scores 0.",
    source="The rule is ours.",
    corrected=corrected,
    low=0.0,
    high=1.0,
)
'''

_BENCHMARK = """\
# All keys: docs/reference/benchmark_yaml.md of MedHELM. Real rows are read from DATA/ward/notes.jsonl (`--data DATA`).
name: ward
title: Ward title
description: Name the findings in a note.
taxonomy: {category: clinical_note_generation, subcategory: recording_procedures}
access: private
source:
  kind: jsonl
  files: {notes.jsonl: ""}       # file -> sha256, or "" while it still changes
id: [note_id]
answer: terms
prompt: |
  Name the findings in this note, separated by semicolons.

  {note}
max_tokens: 50
metrics: [@@exact_match]
"""

_ROWS = """\
{"note_id": "1", "note": "Invented. Seen on the round: the left leg is swollen and warm.", "terms": "swollen; warm"}
{"note_id": "2", "note": "Invented. Slept badly, with Fever at night and a dry cough.", "terms": "fever; cough"}
{"note_id": "3", "note": "Invented. No complaints, walks the corridor alone.", "terms": "no complaints"}
{"note_id": "4", "note": "Invented. Nausea after breakfast, no vomiting.", "terms": "nausea; no vomiting"}
"""

_TEST_PACKAGE = '''\
"""MedHELM finds the plug-ins by their entry points: install the package first (`pip install -e .`)."""

from __future__ import annotations

import json
import subprocess
import sys


def test_medhelm_finds_every_plug_in() -> None:
    command = [sys.executable, "-m", "medhelm", "plugins", "--json"]
    listed = json.loads(subprocess.run(command, capture_output=True, check=False).stdout)
    ours = [one for one in listed["plugins"] if one["package"] == "medhelm-ward"]
    assert ours
    assert [one["problems"] for one in ours] == [[]] * len(ours)
'''

_TEST_PROVIDER = '''\
"""The provider sends a request in the server's format and reads the completion."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from medhelm.domain import Message, Model, Prompt, Request
from medhelm_ward.provider import Ward


class Http:
    """Takes the place of the HTTP client, and keeps what was sent."""

    async def post_json(self, url: str, *, headers: Any, payload: Any) -> Any:
        """Return a response as the server gives it."""
        self.sent = (url, payload)
        return SimpleNamespace(status=200, body=b'{"answer": "swollen", "tokens": [9, 1]}', latency_s=0.1)


def test_a_request_becomes_a_completion() -> None:
    http: Any = Http()
    model = Model(name="ward/m1", provider="ward", remote_name="m1", base_url="http://127.0.0.1:1")
    request = Request(model=model, prompt=Prompt((Message("user", "Name the findings."),)), max_tokens=5)
    completion = asyncio.run(Ward(model, http, "").complete(request))
    assert (completion.text, completion.usage.output) == ("swollen", 1)
    assert http.sent == ("http://127.0.0.1:1/answer", {"model": "m1", "question": "Name the findings.", "limit": 5})
'''

_TEST_METRIC = '''\
"""The metric counts terms."""

from __future__ import annotations

import pytest
from medhelm.domain import Instance, Reference
from medhelm.errors import DataError
from medhelm_ward.metric import WARD


def score(completion: str, reference: str) -> float:
    return WARD.corrected(completion, Instance(id="1", fields={}, references=(Reference(reference),)))


def test_terms_are_counted_in_any_case() -> None:
    assert score("Swollen and red", "swollen; warm") == 0.5
    assert score("", "swollen; warm") == 0.0


def test_a_reference_without_terms_cannot_be_scored() -> None:
    with pytest.raises(DataError):
        score("swollen", " ; ")
'''

_TEST_BENCHMARK = '''\
"""The benchmark passes its check: its own references get the best score."""

from __future__ import annotations

import subprocess
import sys


def test_the_benchmark_is_sound() -> None:
    command = [sys.executable, "-m", "medhelm", "benchmarks", "check", "ward", "--tier", "sample"]
    subprocess.run(command, check=True)
'''

_FILES: Mapping[str, Mapping[str, str]] = {
    "": {
        "pyproject.toml": _PROJECT,
        "src/medhelm_ward/__init__.py": '"""Plug-ins for MedHELM."""\n',
        "tests/test_package.py": _TEST_PACKAGE,
    },
    "provider": {"src/medhelm_ward/provider.py": _PROVIDER, "tests/test_provider.py": _TEST_PROVIDER},
    "metric": {"src/medhelm_ward/metric.py": _METRIC, "tests/test_metric.py": _TEST_METRIC},
    "benchmark": {
        "src/medhelm_ward/benchmarks/__init__.py": '"""One folder per benchmark."""\n',
        "src/medhelm_ward/benchmarks/ward/benchmark.yaml": _BENCHMARK,
        "src/medhelm_ward/benchmarks/ward/sample.jsonl": _ROWS,
        "tests/test_benchmark.py": _TEST_BENCHMARK,
    },
}
"""Kind -> its files; "" for those of every package."""


def scaffold_plugin(name: str, kinds: Collection[str], folder: Path) -> Path:
    """Create the package `medhelm-NAME` in `folder`, and return its folder.

    Parameters: name, of the plug-in, in snake case; kinds, some of KINDS, at least one.
    Raises: UserError if the folder exists; as `output_errors`.
    """
    place = folder / f"medhelm-{name.replace('_', '-')}"
    if place.exists():
        raise UserError(f"{place} already exists. Choose another name, or another folder with --out.")
    chosen = [kind for kind in KINDS if kind in kinds]
    points = "".join(f'\n[project.entry-points."medhelm.{kind}s"]\n{_ENTRY_POINTS[kind]}\n' for kind in chosen)
    inserted = {_PROJECT: f"{points}\n", _BENCHMARK: "ward, " if "metric" in chosen else ""}
    with output_errors(place), atomic_folder(place, replace=False) as new:
        for kind in ("", *chosen):
            for path, template in _FILES[kind].items():
                text = template.replace("@@\n" if template == _PROJECT else "@@", inserted.get(template, ""))
                file = new / _named(path, name)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(_named(text, name), encoding="utf-8")
    return place


def _named(text: str, name: str) -> str:
    """Return a template with the name of the plug-in in place of `ward`."""
    words = name.replace("_", " ")
    names = {
        "medhelm-ward": f"medhelm-{name.replace('_', '-')}",
        "Ward title": words.capitalize(),
        "WARD": name.upper(),
        "Ward": words.title().replace(" ", ""),
        "ward": name,
    }
    return re.sub("|".join(names), lambda match: names[match[0]], text)
