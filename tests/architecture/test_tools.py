"""Man pages, and the check that the site loads nothing from elsewhere."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tools import man, reference
from tools.code_size import code_lines, import_lines, over_budget
from tools.perturbation_sample import marked, words
from tools.site import loaded_from_elsewhere


def test_every_command_has_a_man_page_with_its_options_and_exit_codes() -> None:
    for name, command in reference.commands():
        page = man.page(name, command)
        assert page.startswith(f'.TH "{name.replace(" ", "-").upper()}" "1"')
        assert next(line for line in page.splitlines() if line.startswith(".SH")) == ".SH NAME"
        for option in reference.options_of(command):
            assert man.escaped(option.opts[0]) in page
        assert re.search(r"\.SH EXIT STATUS\n\.TP\n\.B 0\nDone\.", page)


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


def test_code_lines_are_counted_and_compared_with_budgets() -> None:
    head = '"""Module."""\n\nimport os  # a comment\n\n# another\n'
    text = head + 'def f(a,\n      b):\n    """Docstring."""\n    return """a\nb"""\n'
    assert code_lines(text) == {3, 6, 7, 9, 10}
    assert import_lines(ast.parse(text)) == 1
    assert over_budget({"a": 4.0, "b": 1.0, "c": 3.0}, {"a": 3.0, "c": 3.0}) == ["a: 4, budget 3", "b: 1 has no budget"]


def test_changes_of_a_text_are_marked_with_the_words_around_them() -> None:
    long = "one two three four five six seven eight nine ten " * 3
    found = marked(words(f"He had pain. {long}End."), words(f"He had no pain. {long}The end."))
    assert found.startswith("He had** no** pain. one two three four five six …")
    assert found.endswith("…three four five six seven eight nine ten ~~End~~**The end**.")
