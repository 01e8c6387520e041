"""Man pages, and the check that the site loads nothing from elsewhere."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import click
import pytest

from medhelm.cli import cli
from tools import man, reference
from tools.code_size import code_lines, import_lines, over_budget
from tools.site import loaded_from_elsewhere


def test_every_command_has_a_man_page_with_its_options_and_exit_codes() -> None:
    for name, command in reference.commands():
        page = man.page(name, command)
        assert page.startswith(f'.TH "{name.replace(" ", "-").upper()}" "1"')
        assert next(line for line in page.splitlines() if line.startswith(".SH")) == ".SH NAME"
        for option in reference.options_of(command):
            assert man.escaped(option.opts[0]) in page
        assert re.search(r"\.SH EXIT STATUS\n\.TP\n\.B 0\nDone\.", page)


def test_text_cannot_become_a_command_of_roff() -> None:
    assert man.escaped(".SH x\n'b -- \\n") == "\\&.SH x\n\\&'b \\-\\- \\en"


def test_help_is_split_into_prose_and_examples() -> None:
    prose, example = reference.help_parts(cli.commands["leaderboard"])
    assert prose.startswith("Rank models")
    assert example.startswith("Examples:\n  medhelm leaderboard")
    option = click.Option(["--n"], type=int, multiple=True, help="How many.  [default: 3]", envvar="N")
    assert reference.option_row(option) == ("`--n` `INTEGER`", "How many. Repeatable.", "default 3; `N`")


def test_numpydoc_sections_become_lists() -> None:
    def documented() -> None:
        """Do it.

        Parameters
        ----------
        limit : int
            Most instances,
            at least 1.

        >>> 1 + 1
        2
        """

    assert reference.docstring(documented) == (
        "Do it.\n\n**Parameters**\n\n- `limit` (int): Most instances, at least 1.\n\n```python\n>>> 1 + 1\n2\n```"
    )


def test_what_a_page_would_load_from_another_host_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<a href="https://x.org">x</a><script src=https://cdn.example/a.js></script>'
        '<link rel="stylesheet" href="//fonts.example/f">',
        encoding="utf-8",
    )
    (tmp_path / "b.css").write_text("@import url(https://fonts.example/b.css); .c { background: url(d.png) }", "utf-8")
    found = list(loaded_from_elsewhere(tmp_path))
    assert found == [
        "a.html: https://cdn.example/a.js",
        "a.html: //fonts.example/f",
        "b.css: https://fonts.example/b.css",
    ]


def test_code_lines_are_lines_with_code() -> None:
    head = '"""Module."""\n\nimport os  # a comment\n\n# another\n'
    text = head + 'def f(a,\n      b):\n    """Docstring."""\n    return """a\nb"""\n'
    assert code_lines(text) == {3, 6, 7, 9, 10}
    assert import_lines(ast.parse(text)) == 1


@pytest.mark.parametrize(
    ("found", "problems"),
    [
        ({"a": 3.0}, []),
        ({"a": 4.0}, ["a: 4, budget 3"]),
        ({"b": 1.0}, ["b: 1 has no budget"]),
    ],
)
def test_a_figure_over_its_budget_is_named(found: dict[str, float], problems: list[str]) -> None:
    assert over_budget(found, {"a": 3.0}) == problems
