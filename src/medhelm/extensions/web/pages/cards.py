"""The evaluation card of one benchmark, as `medhelm export card` writes it."""

from __future__ import annotations

from datetime import UTC, datetime

from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.errors import UserError
from medhelm.extensions.web.page import PageRequest
from medhelm.extensions.web.pages.benchmarks import data_address, known_problems
from medhelm.extensions.web.pages.data_use import use_of
from medhelm.extensions.web.site import BoardSelection, Site, board_of
from medhelm.io.http.pages import Download, Page, PageNotFound, json_download
from medhelm.results.card import card_of
from medhelm.results.card_view import Card, as_json, byline, front_sections, places, sections, tables
from medhelm.results.export import ExportSelection
from medhelm.results.options import BoardOptions, DocumentOptions
from medhelm.storage.store import Store, stored_folder


def page(site: Site, request: PageRequest) -> Page:
    """Return the card, what is known to be wrong first."""
    name = request.text("benchmark")
    board, card = benchmark_card(site, name)
    definition = site.definitions.get(name)
    front = dict(front_sections(card))
    title = board.columns[0].title
    values = {
        "name": name,
        "heading": title,
        "definition": definition,
        "data_address": data_address(definition) if definition else "",
        "problems": [*known_problems(name, definition), *front.pop("Limitations", ())],
        "card": card,
        "byline": byline(card),
        "front": front,
        "tables": tables(card),
        "sections": sections(card),
        "places": places(card),
    }
    return Page(template="benchmark_card.html", title=f"{title}: card", values=values)


def json_(site: Site, request: PageRequest) -> Download:
    """Return the card as JSON, with the keys of `medhelm export card`."""
    name = request.text("benchmark")
    return json_download(as_json(benchmark_card(site, name)[1]), f"{name}-card")


def benchmark_card(site: Site, name: str) -> tuple[Leaderboard, Card]:
    """Return the leaderboard of a benchmark and its card, from memory where they were made before.

    Raises: PageNotFound without a run on the benchmark.
    """

    def make() -> tuple[Leaderboard, Card]:
        try:
            board = board_of(site, BoardSelection(benchmark=name))
        except UserError:
            text = f"The store has no run on `{name[:80]}`. A card shows the results of runs."
            raise PageNotFound(text) from None
        finished = site.inputs()
        runs = {key: run for key, run in finished.runs.items() if key[1] == name}
        first = next(iter(runs.values()))
        selection = ExportSelection(
            store=Store(stored_folder(first).parents[2]),
            runs=list(runs.values()),
            counted=runs,
            tier=finished.tier,
            remarks=(),
            left_out=board.left_out,
        )
        options = BoardOptions(rule=site.rule, tier=finished.tier, wanted=site.wanted)
        about = DocumentOptions(date=datetime.now(UTC).date().isoformat())
        return board, card_of(selection, board, site.definitions, options, about, use_of(site, with_names=False))

    return site.keep(("card", name), make)
