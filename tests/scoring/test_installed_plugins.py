"""Packages of one name, and the versions of the packages behind a run."""

from __future__ import annotations

from pathlib import Path

from medhelm.io import plugins
from medhelm.scoring.installed_plugins import changed_since, installed_plugins, version_of, versions_in_use
from tests.support.plugins import Install, write_metadata

METRIC = """
from medhelm.scoring.metric import Metric

def rule(reply, instance):
    return 1.0

MINE = Metric(name="mine", title="Mine", description="D.", source="S.", published=rule, corrected=rule)

def open_mine(model, around): ...
"""


def test_two_packages_of_one_name_are_both_listed(install: Install) -> None:
    for package in ("alpha", "beta"):
        install(package, METRIC, metrics={"mine": "MINE"})
    found, _ = installed_plugins()
    assert [(one.plugin.package, one.gives) for one in found] == [("alpha", ()), ("beta", ())]
    assert found[0].problems == found[1].problems
    assert "alpha 0.1" in found[0].problems[0]


def test_the_versions_behind_a_run(install: Install) -> None:
    install("metrics", METRIC, version="3.1", metrics={"mine": "MINE"})
    install("service", METRIC, version="4.2", providers={"mine": "open_mine"})
    install("tasks", METRIC, version="5.3", benchmarks={"tasks": "MINE"})
    assert versions_in_use("tasks", ["openai", "mine"], ["mine", "exact_match", "unknown"]) == {
        "service": "4.2", "metrics": "3.1", "tasks": "5.3",
    }  # fmt: skip
    assert versions_in_use("gone", ["baseline"], ["rouge_l"]) == {"gone": ""}
    assert (version_of("service"), version_of("gone"), version_of("")) == ("4.2", "", "")


def test_changed_package_versions_since_a_run(install: Install, site: Path) -> None:
    install("metrics", METRIC, version="3.1", metrics={"mine": "MINE"})
    assert changed_since({"medhelm": "0.0.1", "python": "2.7", "metrics": "3.1"}) == []
    assert changed_since({"metrics": "3.0", "gone": "1", "never": ""}) == [
        "made with metrics 3.0; this is 3.1",
        "made with gone 1; it is not here",
    ]
    write_metadata(site, "never", "8", {})
    plugins.forget()
    assert changed_since({"never": ""}) == ["made with never of unknown version; this is 8"]
