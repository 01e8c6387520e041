"""The evaluation card as a page: one file, no script, nothing fetched, printable on A4."""

from __future__ import annotations

from html import escape

from medhelm.reports.card import Card, opening, sections, tables, title
from medhelm.reports.tables import MISSING, NUMERIC, Value

STYLE = """
@page { size: A4; margin: 10mm 11mm; }
* { box-sizing: border-box; }
body { font: 8.2pt/1.32 "Helvetica Neue", Arial, "Liberation Sans", sans-serif; color: #16202a; margin: 0 auto;
       max-width: 188mm; padding: 4mm 0; background: #fff; }
h1 { font-size: 14pt; margin: 0 0 1mm; }
h2 { font-size: 9pt; margin: 3mm 0 1mm; color: #0b4f6c; border-bottom: 0.3mm solid #0b4f6c; }
p { margin: 0 0 1mm; }
p.invented { font-weight: bold; border: 0.5mm solid #a4133c; color: #a4133c; padding: 1mm 2mm; }
table { border-collapse: collapse; width: 100%; }
th { text-align: left; font-weight: 600; border-bottom: 0.2mm solid #56646f; }
th, td { padding: 0.4mm 1.6mm 0.4mm 0; vertical-align: top; overflow-wrap: anywhere; }
th:last-child, td:last-child { padding-right: 0; }
tr + tr td { border-top: 0.1mm solid #d5dce1; }
td.number { white-space: nowrap; font-variant-numeric: tabular-nums; }
ul { margin: 0; padding-left: 3.6mm; }
code { font: 7.4pt/1.3 "DejaVu Sans Mono", Consolas, monospace; overflow-wrap: anywhere; white-space: pre-wrap; }
div.columns { display: flex; gap: 6mm; }
div.columns > section { flex: 1 1 0; min-width: 0; }
@media print { body { padding: 0; max-width: none; } h2 { break-after: avoid; } tr, li { break-inside: avoid; } }
""".strip()


def to_html(card: Card) -> str:
    """The card as a page of its own."""
    first, *more = opening(card)
    lines = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title(card))}</title>",
        f"<style>\n{STYLE}\n</style></head><body>",
        f"<h1>{escape(title(card))}</h1>",
        f"<p>{escape(first)}</p>",
        *(f'<p class="invented">{escape(text)}</p>' for text in more),
    ]
    for heading, headers, rows in tables(card):
        lines += [f"<h2>{escape(heading)}</h2>", *_table(headers, rows)]
    parts = [_section(heading, sentences) for heading, sentences in sections(card)]
    lines += [*_side_by_side(parts[0], parts[1]), *_side_by_side(parts[2], parts[3])]
    lines += ["<h2>To do it again</h2>", f"<p><code>{escape(card.command)}</code></p>", "</body></html>"]
    return "\n".join(lines) + "\n"


def _table(headers: list[str], rows: list[list[Value]]) -> list[str]:
    head = "".join(f"<th>{escape(header)}</th>" for header in headers)
    body = ["<tr>" + "".join(_cell(value) for value in row) + "</tr>" for row in rows]
    return [f"<table><thead><tr>{head}</tr></thead><tbody>", *body, "</tbody></table>"]


def _cell(value: Value) -> str:
    text = MISSING if value is None else str(value)
    is_number = not isinstance(value, str) or (NUMERIC.match(text) and len(text) <= 40 and ":" not in text)
    return f'<td class="number">{escape(text)}</td>' if is_number else f"<td>{escape(text)}</td>"


def _section(heading: str, sentences: list[str]) -> list[str]:
    items = "".join(f"<li>{escape(text)}</li>" for text in sentences)
    return ["<section>", f"<h2>{escape(heading)}</h2>", f"<ul>{items}</ul>", "</section>"]


def _side_by_side(left: list[str], right: list[str]) -> list[str]:
    return ['<div class="columns">', *left, *right, "</div>"]
