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


def test_only_our_own_command_is_run(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="only `medhelm`"):
        recorded("```console\n$ rm -r x\n```\n", tmp_path, 1)
