"""Names, messages and documents use the words of the field, in plain American English.

A failure lists `file:line: word`. Use the word of the field there ("run", not "road"; "missing", not "nobody has it"),
or add the file and the word to `ALLOWED`, with the reason why the word is right.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.support.source_code import parsed

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "medhelm"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

RETIRED_NAMES = re.compile(
    r"""(?x)
    (?: ahead | brother | complaint | dealing | desk | face | fence | floor | foreign | gauge | harvest | heard | late
      | lesson | mend | nobody | opening | outlook | outstanding | parcel | patience | prospect | road | shelf | sitting
      | spool | standing | stranger | surrounding | survey | suspicion | told | travel | trouble | watcher | whoever
      | witness(?:es)? | analyse | behaviour | catalogue | colour | judgement | licence | neighbour | normalised?
      | summarise ) s?
    """
)
"""Words that are not part of a public name: the private vocabulary of earlier versions, and British spellings."""

RETIRED_PHRASES = re.compile(
    r"""(?ix) \b (?:
        nobody | no[ ]one | whoever | for[ ]want[ ]of | (?:is|are)[ ]no[ ](?!longer|more|less|better)
      | stands? | stood | told | tells | brothers? | mend(?:s|ed)? | hitherto | thereby | therein | lest | shall
      | road | travels? | dealings? | parcels? | harvest | patience | troubles | witness(?:es)? | outlook | prospects
      | surroundings | shelf | spool(?:s|ed)? | standings | foreign | sittings? | heard | fence[sd]? | suspicions?
      | whilst | towards | learnt | spelt | grey | centre\w* | favour\w* | colour\w* | behaviour\w* | neighbours?
      | catalogue\w* | licence\w* | judgements? | labelled | cancelled | modelling | analys(?:e|ed|ing)
      | (?:initial|linear|maxim|minim|normal|optim|organ|recogn|serial|standard|summar)is(?:e|es|ed|ing|ation) ) \b
      | \d[ ]%
    """
)
"""Private vocabulary, phrases that read as translated, and British spellings."""

RIDDLE = re.compile(r"(?:How|What|When|Where|Whether|Which|Who|Whose|Why)\b")
"""A docstring begins with what a thing is or does, not with a question word."""

ALLOWED = {
    ("src/medhelm/extensions/local/huggingface.py", "face"),  # the company's name
    ("src/medhelm/storage/store.py", "sitting"),  # a key of files on disk
    ("src/medhelm/extensions/variants/perturbations/options.py", "told"),  # in options of benchmarks
    # Prompts: a change of their text would ask the models again.
    ("src/medhelm/extensions/paper/reference_filter/marking.py", "whoever"),
    # The floor of a criterion is a key of definitions; the old word for a constant baseline stays retired.
    *(
        (f"src/medhelm/{file}.py", word)
        for file in (
            *("analysis/comparison/pairs", "analysis/leaderboard/cells", "analysis/leaderboard/lowest_grades"),
            *("analysis/leaderboard/types", "benchmarks/rubrics", "benchmarks/schema", "domain/benchmark"),
            *("domain/jury", "results/card_view", "results/runs/criteria", "results/runs/lowest_grades"),
        )
        for word in ("floor", "floors")
    ),
    ("src/medhelm/extensions/paper/reference_filter/marking.py", "stand"),
    ("src/medhelm/extensions/paper/reference_filter/marking.py", "stands"),
    ("src/medhelm/extensions/paper/reference_filter/marking.py", "are no "),
    ("src/medhelm/scoring/answers/options.py", "judgement"),  # words that models write
    ("src/medhelm/scoring/answers/options.py", "stands"),
    ("src/medhelm/scoring/jury/parsing.py", "stands"),
    ("src/medhelm/scoring/jury/parsing.py", "fences"),  # of code blocks
    ("src/medhelm/scoring/jury/prompts.py", "stands"),
    ("src/medhelm/scoring/jury/prompts.py", "is no "),
    ("src/medhelm/scoring/jury/prompts.py", "are no "),
    ("docs/explanation/context_windows.md", "sitting"),  # a key of `run.json`
    ("docs/reference/store.md", "sitting"),
    ("docs/explanation/jury.md", "suspicions"),  # a column of `records.parquet`
    ("docs/reference/store.md", "suspicions"),
    ("src/medhelm/results/export.py", "suspicions"),
    ("docs/how-to/inspect.md", "cancelled"),  # a status of Inspect's
    ("docs/reference/benchmarks.md", "summarise"),  # a description that is part of a benchmark's digest
}
"""File and word of the places where a retired word is the right one."""

Nodes = Sequence[ast.AST]

Findings = Iterator[tuple[int, str]]


def words_of(name: str) -> list[str]:
    """Return the words of a name in snake case or camel case, in lower case."""
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]


def docstrings(nodes: Nodes) -> list[ast.Constant]:
    """Return the strings that are statements: docstrings of modules, classes, functions and fields."""
    return [
        node.value
        for node in nodes
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]


def in_names(nodes: Nodes) -> Findings:
    """Find retired words in public names of classes, functions, parameters and fields."""
    for node in nodes:
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                line = node.lineno
            case ast.arg(arg=name, lineno=line) | ast.AnnAssign(target=ast.Name(id=name), lineno=line):
                pass
            case _:
                continue
        if not name.startswith("_"):
            yield from ((line, word) for word in words_of(name) if RETIRED_NAMES.fullmatch(word))


def in_phrases(nodes: Nodes) -> Findings:
    """Find retired phrases in string literals of several words: messages, help texts, headings."""
    documented = set(docstrings(nodes))
    for node in nodes:
        if isinstance(node, ast.Constant) and node not in documented and " " in str(node.value).strip():
            yield from ((node.lineno, hit.group().lower()) for hit in RETIRED_PHRASES.finditer(str(node.value)))


def in_riddles(nodes: Nodes) -> Findings:
    """Find docstrings that begin with a question word."""
    for text in docstrings(nodes):
        if hit := RIDDLE.match(str(text.value).strip()):
            yield text.lineno, hit.group()


def in_docstrings(nodes: Nodes) -> Findings:
    """Find retired phrases in docstrings, where "if there is no ..." is plain English."""
    for text in docstrings(nodes):
        found = (hit.group().lower() for hit in RETIRED_PHRASES.finditer(str(text.value)))
        yield from ((text.lineno, hit) for hit in found if hit.strip() not in ("is no", "are no"))


def in_page(text: str) -> Findings:
    """Find retired phrases in a document."""
    for number, line in enumerate(text.splitlines(), 1):
        yield from ((number, hit.group().lower()) for hit in RETIRED_PHRASES.finditer(line))


CHECKS: dict[str, Callable[[Nodes], Findings]] = {
    "names": in_names,
    "phrases": in_phrases,
    "riddles": in_riddles,
    "docstrings": in_docstrings,
}


def modules() -> list[Path]:
    """List the modules of the package, without those of benchmarks, which quote prompts and data."""
    return [path for path in sorted(SOURCE.rglob("*.py")) if "library" not in path.parts]


def refused(path: Path, found: Findings) -> list[str]:
    """Return `file:line: word` for each finding that is not allowed."""
    file = path.relative_to(ROOT).as_posix()
    return [f"{file}:{line}: {word}" for line, word in found if (file, word) not in ALLOWED]


def test_code_uses_the_words_of_the_field() -> None:
    hits = []
    for path in modules():
        nodes = list(ast.walk(parsed(path)))
        for check in CHECKS.values():
            hits += refused(path, check(nodes))
    assert hits == []
    assert [path for path in modules() if any(map(RETIRED_NAMES.fullmatch, words_of(path.stem)))] == []


def test_documents_use_the_words_of_the_field() -> None:
    assert [hit for page in PAGES for hit in refused(page, in_page(page.read_text(encoding="utf-8")))] == []
