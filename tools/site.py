"""Build the site of the documents with Zensical, check that it needs no network, and pack it as a zip.

    python -m tools.site          # build/site/ and build/medhelm-docs.zip

A broken link or anchor between pages fails the build. The site opens from disk; only its search needs a web server:
`python -m http.server --directory build/site`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
SITE = ROOT / "build" / "site"

_LOADED = re.compile(
    r"<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)=\"?((?:https?:)?//[^\"\s>]*)", re.IGNORECASE
)
_IN_STYLE = re.compile(r"(?:url\(|@import\s+)[\"']?((?:https?:)?//[^\"')\s]*)", re.IGNORECASE)


def loaded_from_elsewhere(site: Path) -> Iterator[str]:
    """Everything that a page or a style sheet would load from another host, as `FILE: ADDRESS`."""
    for pattern, suffix in ((_LOADED, "*.html"), (_IN_STYLE, "*.css")):
        for path in sorted(site.rglob(suffix)):
            for address in pattern.findall(path.read_text(encoding="utf-8")):
                yield f"{path.relative_to(site)}: {address}"


def main() -> None:
    """Build, check and pack."""
    shutil.rmtree(SITE, ignore_errors=True)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    if subprocess.run(command, cwd=ROOT, env={**os.environ, "NO_COLOR": "1"}, check=False).returncode:
        sys.exit("The site was not built: see above. `zensical` is in the dependency group `docs`.")
    if found := list(loaded_from_elsewhere(SITE)):
        sys.exit("The site would load from other hosts:\n" + "\n".join(found))
    archive = shutil.make_archive(str(SITE.parent / "medhelm-docs"), "zip", SITE.parent, SITE.name)
    pages = sum(1 for _ in SITE.rglob("*.html"))
    print(f"{pages} pages: {SITE.relative_to(ROOT)}/index.html, {Path(archive).relative_to(ROOT)}")


if __name__ == "__main__":
    main()
