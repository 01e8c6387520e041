"""Plug-ins by name: who may have one, when code is imported, what is said of broken ones; and documents by name."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

from medhelm.errors import UserError
from medhelm.io import plugins
from medhelm.io.plugins import (
    METRICS,
    Plugin,
    WithPlugins,
    declared,
    find_document,
    find_documents,
    packages_that_cannot_be_read,
)
from tests.support.cli import Medhelm
from tests.support.plugins import Install


def accept(plugin: Plugin, found: object) -> str:
    if not isinstance(found, str):
        raise plugin.refuse("is no text")
    return f"{plugin.package}: {found}"


def things(**built_in: str) -> WithPlugins[str]:
    return WithPlugins(METRICS, built_in, accept, reserved=("kept",))


def test_a_plug_in_is_found_after_what_is_built_in(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    code = "print('welcome')\nX = 'x'\n"
    install("alpha", code, metrics={"two": "X"}, benchmarks={"three": "X"}, other={"four": "X"})
    assert [list(declared(group)) for group in plugins.GROUPS] == [[], ["two"], ["three"], []]
    found = things(one="1")
    assert (list(found), len(found), "two" in found, "four" in found) == (["one", "two"], 2, True, False)
    assert (found["one"], found["two"], found.get("two"), found.if_usable("two")) == ("1", *["alpha: x"] * 3)
    assert (found.problems(), found.plugin("one"), found.if_usable("four")) == ({}, None, None)
    plugin = found.plugin("two")
    assert plugin is not None
    assert plugin.in_words == "alpha 0.1 (entry point `two` of medhelm.metrics)"
    assert capsys.readouterr() == ("", "welcome\n"), "what it prints is not what was asked for"
    with pytest.raises(KeyError):
        found["four"]


def test_nothing_is_imported_before_its_name_is_asked_for(install: Install) -> None:
    one, two = (
        install(package, "X = 'x'\n", metrics={name: "X"}) for package, name in (("a", "first"), ("b", "second"))
    )
    found = things(built="in")
    assert (list(found), "third" in found, found["built"]) == (["built", "first", "second"], False, "in")
    assert not {one, two} & sys.modules.keys()
    assert found["first"] == "a: x"
    assert {one, two} & sys.modules.keys() == {one}
    assert dict(found.items())["second"] == "b: x"


def test_a_name_that_exists_here_stays_what_it_is(install: Install) -> None:
    module = install("thief", "X = 'x'\n", metrics={"one": "X", "kept": "X", "mine": "X"})
    found = things(one="1")
    assert (found["one"], "kept" in found, list(found)) == ("1", False, ["one", "mine"])
    assert module not in sys.modules
    problems = {plugin.name: why for plugin, why in found.problems().items()}
    assert set(problems) == {"one", "kept"}
    problem = "thief 0.1 (entry point `one` of medhelm.metrics) uses the name `one`, which is already taken"
    assert problem in problems["one"]


def test_a_name_that_two_packages_have_is_nobodys(install: Install) -> None:
    modules = [install(package, "X = 'x'\n", metrics={"two": "X"}) for package in ("alpha", "beta")]
    install("gamma", "X = 'x'\n", metrics={"three": "X"})
    found = things(one="1")
    with pytest.raises(UserError, match=r"the name of two plug-ins: alpha 0\.1 .* and beta 0\.1 .* Uninstall one"):
        found["two"]
    assert ("alpha 0.1" in found.why_not("two"), found.if_usable("two"), found["three"]) == (True, None, "gamma: x")
    assert not set(modules) & sys.modules.keys()
    assert {plugin.package for plugin in found.problems()} == {"alpha", "beta"}


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("raise RuntimeError('first line\\nthe last line')\n", "RuntimeError: the last line"),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3"),
        ("Y = 1\n", "has no attribute 'X'"),
        ("raise ValueError('v' * 5000)\n", "vvv [...]"),
    ],
)
def test_a_package_that_cannot_be_imported_is_named(install: Install, code: str, words: str) -> None:
    for package, text in (("broken", code), ("sound", "X = 'x'\n"), ("wrong", "X = 5\n")):
        install(package, text, metrics={package: "X"})
    found = things()
    for _ in range(2):
        with pytest.raises(UserError, match=r"wrong 0\.1 .* is no text\. Fix the package"):
            found["wrong"]
    with pytest.raises(UserError) as caught:
        found["broken"]
    message = str(caught.value)
    assert message.startswith("broken 0.1 (entry point `broken` of medhelm.metrics) cannot be imported: ")
    assert message.endswith(". Fix the package, or uninstall it.")
    assert (words in message, "first line" in message, len(message) < 500) == (True, False, True)
    assert (found.why_not("broken"), found.if_usable("broken"), found["sound"]) == (message, None, "sound: x")
    assert {plugin.name for plugin in found.problems()} == {"broken", "wrong"}


def test_metadata_that_is_none_disturbs_nobody_else(site: Path, install: Install) -> None:
    install("sound", "X = 'x'\n", metrics={"good": "X"})
    for name, metadata, entry in (
        ("damaged", "Name: damaged\n", "this is no entry point"),
        ("nameless", "", "a = b:c"),
    ):
        folder = site / f"{name}-1.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(metadata, encoding="utf-8")
        (folder / "entry_points.txt").write_text(f"[medhelm.metrics]\n{entry}\n", encoding="utf-8")
    plugins.forget()
    assert list(declared(METRICS)) == ["good"]
    wrong = packages_that_cannot_be_read()
    assert (len(wrong), any("damaged-1.dist-info cannot be read" in text for text in wrong)) == (2, True)


# --- documents that come with the package -----------------------------------------------------------------------------

ROOT = Path(__file__).parents[2]


def test_every_document_is_listed_and_in_the_wheel(medhelm: Medhelm) -> None:
    listed = medhelm("docs").out
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packed = wheel["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    for name, path in find_documents().items():
        assert re.search(rf"^{re.escape(name)}( |$)", listed, re.MULTILINE)
        assert any(path.is_relative_to(ROOT / place) for place in packed), path
    assert medhelm("docs", "benchmark_yaml").out.count("| `source.delimiter` |") == 1
    assert Path(medhelm("docs", "benchmark.schema.json", "--path").out.strip()).is_file()


def test_a_document_is_found_by_any_of_its_names() -> None:
    for name in ("add_a_benchmark", "how-to/add_a_benchmark", "docs/how-to/add_a_benchmark.md"):
        assert find_document(name).name == "add_a_benchmark.md"
    with pytest.raises(UserError, match="Did you mean `add_a_benchmark`"):
        find_document("add_benchmark")
