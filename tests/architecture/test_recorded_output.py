"""The output that tutorials and the README show is what their commands print."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from tools.recorded_output import ROOT, differences, recorded, run_page

SHORT = ROOT / "docs/explanation/method.md"
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
PAGES = [ROOT / "README.md", *TUTORIALS, ROOT / "docs/how-to/ci.md", SHORT]
UPDATE = bool(os.environ.get("MEDHELM_UPDATE_GOLDEN"))


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, id=page.name, marks=[] if page == SHORT else [pytest.mark.long]) for page in PAGES],
)
def test_a_page_shows_what_its_commands_print(page: Path, data_dir: Path) -> None:
    """Update: `MEDHELM_UPDATE_GOLDEN=1 pytest tests/architecture/test_recorded_output.py`."""
    if find_spec("torch") is not None and "BERTScore needs torch" in page.read_text(encoding="utf-8"):
        pytest.skip("torch is installed, so this page would give another reason why BERTScore is missing")
    now = run_page(page, data_dir)
    if UPDATE:
        page.write_text(now, encoding="utf-8", newline="\n")
    assert differences(page.read_text(encoding="utf-8"), now) == []


def test_output_is_cut_where_the_page_cuts_it(tmp_path: Path) -> None:
    page = "```console\n$ medhelm --version\nold\n$ medhelm taxonomy\n1\n2\n...\n$ medhelm taxonomy\n...\n1\n```\n"
    _, _, version, _, *head, cut, again, cut_first, last, _ = recorded(page, tmp_path, 1).splitlines()
    assert version.startswith("medhelm")
    assert (len(head), cut, again, cut_first) == (2, "...", "$ medhelm taxonomy", "...")
    assert last and last not in head


def test_measured_times_and_ends_of_intervals_may_differ() -> None:
    assert not differences("2 tokens, 0.07 s]", "2 tokens, 1.31 s]")
    assert differences("2 tokens, 0.07 s]", "3 tokens, 0.07 s]")[-2:] == ["-2 tokens, 0.00 s]", "+3 tokens, 0.00 s]"]
    assert not differences("0.5 [0.46, 0.54]", "0.5  [-0.01, 1.00]")
    assert differences("0.5 [0.46, 0.54]", "0.6 [0.46, 0.54]")


def test_only_our_own_command_is_run(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="only `medhelm`"):
        recorded("```console\n$ rm -r x\n```\n", tmp_path, 1)
