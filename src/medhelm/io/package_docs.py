"""Finds the documentation of the package, installed or in a checkout."""

from __future__ import annotations

from pathlib import Path

from medhelm.errors import MissingError, UserError, suggestion

PACKAGE = Path(__file__).parent.parent
PLACES = (PACKAGE / "docs", PACKAGE.parent.parent / "docs")
"""Folder of the documentation in an installed package, and in a checkout."""

_SUFFIXES = (".md", ".yaml", ".json", ".txt")


def find_documents() -> dict[str, Path]:
    """Return name -> file; names are paths in the folder without `.md`. Raises: MissingError if there are none."""
    folder = next((place for place in PLACES if (place / "index.md").is_file()), None)
    if folder is None:
        raise MissingError("the documentation is not installed with this copy of medhelm.")
    files = sorted(path for path in folder.rglob("*") if path.suffix in _SUFFIXES)
    constraints = folder.parent / "constraints.txt"
    files += [constraints] if constraints.is_file() else []
    return {
        (path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.name).removesuffix(".md"): path
        for path in files
    }


def find_document(name: str) -> Path:
    """Return the file of a document, named with or without folder and `.md`. Raises: UserError for an unknown name."""
    documents = find_documents()
    wanted = name.removeprefix("docs/").removesuffix(".md")
    found = [path for key, path in documents.items() if wanted in (key, key.rpartition("/")[2], Path(key).stem)]
    exact = [path for key, path in documents.items() if wanted in (key, key.rpartition("/")[2])]
    for matching in (exact, found):
        if len(matching) == 1:
            return matching[0]
    keys = [key for key in documents if documents[key] in found] or list(documents)
    hint = suggestion(wanted, [key.rpartition("/")[2] for key in keys]) if not found else f"Known: {', '.join(keys)}."
    raise UserError(f"no document is named `{name}`. {hint or '`medhelm docs` lists them.'}")


def title_of(document: Path) -> str:
    """Return the heading of a document, or its first comment; empty if it has neither."""
    for line in document.read_text(encoding="utf-8").splitlines()[:5]:
        if line.startswith("# "):
            return line.removeprefix("# ").strip()
    return "Editor schema of benchmark.yaml" if document.suffix == ".json" else ""
