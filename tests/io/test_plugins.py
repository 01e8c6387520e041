"""Plug-ins by name: who may have one, when code is imported, and what is said of packages that do not work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from medhelm.errors import UserError
from medhelm.io import plugins
from medhelm.io.plugins import METRICS, Plugin, WithPlugins, declared, packages_that_cannot_be_read
from tests.support.plugins import Install, write_metadata


def accept(plugin: Plugin, found: object) -> str:
    if not isinstance(found, str):
        raise plugin.refuse("is no text")
    return f"{plugin.package}: {found}"


def things(**built_in: str) -> WithPlugins[str]:
    return WithPlugins(METRICS, built_in, accept, reserved=("kept",))


def test_there_may_be_none(site: Path) -> None:
    found = things(one="1")
    assert (dict(found), len(found), "one" in found, "two" in found, found.get("two")) == (
        {"one": "1"},
        1,
        True,
        False,
        None,
    )
    assert (found.problems(), found.plugin("one"), found.why_not("two"), found.if_usable("two")) == ({}, None, "", None)
    with pytest.raises(KeyError):
        found["two"]


def test_a_plug_in_is_found_after_what_is_built_in(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    code = "print('welcome')\nX = 'x'\n"
    install("alpha", code, metrics={"two": "X"}, benchmarks={"three": "X"}, other={"four": "X"})
    assert [list(declared(group)) for group in plugins.GROUPS] == [[], ["two"], ["three"], []]
    found = things(one="1")
    assert list(found) == ["one", "two"]
    assert (found["two"], found.get("two"), found.if_usable("two"), len(found)) == ("alpha: x",) * 3 + (2,)
    plugin = found.plugin("two")
    assert plugin is not None
    assert (plugin.package, plugin.version, plugin.name, plugin.group) == ("alpha", "0.1", "two", METRICS)
    assert plugin.in_words == "alpha 0.1 (entry point `two` of medhelm.metrics)"
    assert capsys.readouterr() == ("", "welcome\n"), "what it prints is not what was asked for"


def test_nothing_is_imported_before_its_name_is_asked_for(install: Install) -> None:
    one, two = (
        install(package, "X = 'x'\n", metrics={name: "X"}) for package, name in (("a", "first"), ("b", "second"))
    )
    found = things(built="in")
    assert (list(found), "first" in found, "third" in found, len(found), found["built"]) == (
        ["built", "first", "second"], True, False, 3, "in",
    )  # fmt: skip
    assert found.plugin("first") is not None
    assert not {one, two} & sys.modules.keys()
    assert found["first"] == "a: x"
    assert one in sys.modules
    assert two not in sys.modules
    assert dict(found.items())["second"] == "b: x"
    assert two in sys.modules


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
    with pytest.raises(
        UserError, match=r"`two` is the name of two plug-ins: alpha 0\.1 .* and beta 0\.1 .* Uninstall one"
    ):
        found["two"]
    assert "alpha 0.1" in found.why_not("two")
    assert found.if_usable("two") is None
    assert found["three"] == "gamma: x"
    assert not set(modules) & sys.modules.keys()
    assert {plugin.package for plugin in found.problems()} == {"alpha", "beta"}


BROKEN = [
    ("import no_such_thing_here\n", "X", "ModuleNotFoundError: No module named 'no_such_thing_here'"),
    ("raise RuntimeError('first line\\nthe last line')\n", "X", "RuntimeError: the last line"),
    ("import sys\nsys.exit(3)\n", "X", "SystemExit: 3"),
    ("Y = 1\n", "X", "has no attribute 'X'"),
    ("raise ValueError('v' * 5000)\n", "X", "vvv [...]"),
]


@pytest.mark.parametrize(("code", "attribute", "words"), BROKEN)
def test_a_package_that_cannot_be_imported_is_named(install: Install, code: str, attribute: str, words: str) -> None:
    install("broken", code, metrics={"bad": attribute})
    install("sound", "X = 'x'\n", metrics={"good": "X"})
    install("wrong", "X = 5\n", metrics={"no_text": "X"})
    found = things()
    for _ in range(2):
        with pytest.raises(UserError, match=r"wrong 0\.1 .* is no text\. Fix the package"):
            found["no_text"]
    with pytest.raises(UserError) as caught:
        found["bad"]
    message = str(caught.value)
    assert message.startswith("broken 0.1 (entry point `bad` of medhelm.metrics) cannot be imported: ")
    assert words in message
    assert message.endswith(". Fix the package, or uninstall it.")
    assert "first line" not in message
    assert len(message) < 500
    assert caught.value.__cause__ is None
    assert "bad" in found
    assert (found.why_not("bad"), found.if_usable("bad"), found["good"]) == (message, None, "sound: x")
    assert {plugin.name for plugin in found.problems()} == {"bad", "no_text"}


def test_metadata_that_is_none_disturbs_nobody_else(site: Path, install: Install) -> None:
    install("sound", "X = 'x'\n", metrics={"good": "X"})
    folder = site / "damaged-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Name: damaged\nVersion: 1\n", encoding="utf-8")
    (folder / "entry_points.txt").write_text("[medhelm.metrics]\nthis is no entry point\n", encoding="utf-8")
    (site / "nameless-1.dist-info").mkdir()
    (site / "nameless-1.dist-info" / "entry_points.txt").write_text("[medhelm.metrics]\na = b:c\n", encoding="utf-8")
    plugins.forget()
    assert list(declared(METRICS)) == ["good"]
    wrong = packages_that_cannot_be_read()
    assert len(wrong) == 2
    assert any("damaged-1.dist-info cannot be read" in text for text in wrong)


def test_of_a_package_found_twice_the_first_counts(
    site: Path, tmp_path: Path, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_metadata(tmp_path, "Alpha", "9", {"medhelm.metrics": {"two": "nowhere:X"}})
    install("alpha", "X = 'x'\n", metrics={"two": "X"})
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    assert things()["two"] == "alpha: x"


STARTS = """
import sys
sys.argv = {argv!r}
from medhelm.cli import main
try:
    main()
except SystemExit as ended:
    assert not ended.code, ended.code
plugins = sys.modules.get("medhelm.io.plugins")
print("LOOKED", plugins is not None and plugins._scan.cache_info().misses > 0, "medhelm_ward" in sys.modules)
"""


@pytest.mark.parametrize(
    ("argv", "looked", "imported"),
    [
        (["medhelm", "--help"], False, False),
        (["medhelm", "benchmarks", "show", "pubmed_qa"], False, False),
        (["medhelm", "benchmarks", "show", "ward"], True, True),
    ],
)
def test_who_asks_for_no_plug_in_does_not_wait_for_any(
    example: Path, site: Path, argv: list[str], looked: bool, imported: bool, tmp_path: Path
) -> None:
    code = f"import sys\nsys.path[:0] = {[str(site), str(example.parent)]!r}\n" + STARTS.format(argv=argv)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"LOOKED {looked} {imported}"
