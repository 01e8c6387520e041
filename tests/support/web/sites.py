"""Sites over invented stores, and browsers that are signed in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from medhelm.domain import Taxonomy
from medhelm.extensions.web.app import LINKS, answer, create_app
from medhelm.extensions.web.page import BY_NAME, PageRequest
from medhelm.extensions.web.security import Security
from medhelm.extensions.web.site import Site
from medhelm.io.http.hosts import Subject
from medhelm.results.options import BoardOptions
from medhelm.results.releases import freeze
from medhelm.storage.audit import AuditLog
from medhelm.storage.store import Store
from tests.support.case_store import add_judged_cases, add_points_cases, make_case_store
from tests.support.running import make_ended
from tests.support.stores import make_store

HOST = "testserver"
"""Name of the server in tests without a network."""


def make_client(*stores: Path, signed_in: bool = True, **settings: Any) -> TestClient:
    """Return a browser without scripts for the site of these stores."""
    security = Security(hosts=[HOST])
    client = TestClient(create_app(Site(stores=list(stores), **settings), security), raise_server_exceptions=False)
    if signed_in:
        client.cookies.set(security.cookie, security.new_session())
    return client


def static_page(site: Site, route: str, *, most_cases: int | None = None, **parts: str) -> str:
    """Return a page as the static site has it, but for its links."""
    request = PageRequest(route=BY_NAME[route], parts=parts, links=LINKS, is_static=True, most_cases=most_cases)
    return answer(site, request)[0].decode()


XSS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "javascript:alert(1)",
    "{{ 7919 * 7919 }}",
    "</style><svg onload=alert(1)>",
    "' onmouseover='alert(1)",
)
"""Names that would run as a script where they are not escaped."""


def make_board_store(folder: Path, *, models: int = 3, **changes: Any) -> Path:
    """Write a store of models and a baseline on three benchmarks; the first model is best, the last one fails."""
    n = 40
    scores: dict[str, dict[str, list[float | None]]] = {}
    for place, benchmark in enumerate(("pubmed_qa", "head_qa", "medec")):
        rows: dict[str, list[float | None]] = {}
        for model in range(models):
            right = n - 4 - (n - 8) * model // max(models - 1, 1) - place
            rows[f"openai/model-{model + 1}@http://127.0.0.1:9/v1"] = [float(i < right) for i in range(n)]
        rows["baseline/majority"] = [float(i % 5 == 0) for i in range(n)]
        scores[benchmark] = rows
    scores["medec"][f"openai/model-{models}@http://127.0.0.1:9/v1"][:6] = [None] * 6
    taxonomies = {"pubmed_qa": "medical_research_assistance"}
    for benchmark, rows in scores.items():
        category = taxonomies.get(benchmark, "clinical_decision_support")
        taxonomy = Taxonomy(category=category, subcategory="some_work")
        make_store(folder, {benchmark: rows}, taxonomy=taxonomy, **changes)
    return folder


def make_whole_site(folder: Path) -> Site:
    """Make a site with a page of every kind: a release, judged and hostile cases, ended evaluations, an audit log.

    It has two stores: a board of models on three benchmarks, and cases of three others.
    """
    store = make_board_store(folder / "board")
    freeze(store, "2026-10", BoardOptions())
    changed = {"pubmed_qa": {"openai/model-3@http://127.0.0.1:9/v1": [1.0] * 40}}
    taxonomy = Taxonomy(category="medical_research_assistance", subcategory="some_work")
    make_store(store, changed, started="2026-02-01T00:00:00+00:00", taxonomy=taxonomy)
    make_ended(store, id="gone")
    make_ended(store, id="stopped", pid=2, state="ended", reason="budget", max_cost_usd=5.0)
    log = AuditLog(Store(store).audit_file)
    for host in ("http://127.0.0.1:9", "https://models.example"):
        log.request_all("POST", host, [(Subject(model="openai/model-1", benchmark="medec", digest="a" * 64), 900)])
    log.close()
    return Site(stores=[store, add_points_cases(add_judged_cases(make_case_store(folder / "cases")))])
