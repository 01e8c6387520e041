"""The jury: names of models, given one by one or in a jury file (`jury_file`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from medhelm.domain import Jury, Model, Prompt, Request
from medhelm.domain.jury import AT_LEAST
from medhelm.domain.text import plural
from medhelm.errors import ConfigError, Problem, UserError
from medhelm.models.catalog import find_models
from medhelm.models.model_names import plain_name

_CANNOT_JUDGE = {
    "baseline": "a baseline picks words from the question; it cannot judge.",
    "replay": "a replay file holds completions of benchmarks' prompts, and none of judges' prompts.",
}
"""Provider -> the reason that its models cannot be judges."""


def find_jury(
    names: Sequence[str],
    *,
    file: Path | None,
    at_least: int | None,
    models_file: Path | None,
    environment: Mapping[str, str],
    note: Callable[[str], object] | None = None,
) -> tuple[Jury | None, list[str]]:
    """Return the requested jury, or None, and warnings for the user.

    `names`, if any, are the whole jury. Otherwise it is read from `file`, or from the file that MEDHELM_JURY names; no
    other file is looked for. `at_least` overrides the file's. `models_file`, `note`: as in `find_models`.
    Raises: ConfigError with all problems of a file, or UserError with all those of names given directly.
    """
    if names:
        warnings = [f"{file} is not used, because judges were named with --judge."] if file else []
        judges, wrong = _find_judges(names, models_file, environment, note)
        lines = [f"judge `{names[position]}`: {text}" for position, text in sorted(wrong.items())]
        if too_many := _too_many(at_least, len(names)):
            lines.append(too_many)
        if lines:
            raise UserError("\n".join(lines))
        return _make_jury(judges, at_least), warnings
    variable = environment.get("MEDHELM_JURY")
    file = file or (Path(variable) if variable else None)
    if file is None:
        return None, []
    from medhelm.models.jury_file import judge_names, read_jury_file  # lazy: most juries are given by name

    document, content, problems = read_jury_file(file)
    named = judge_names(document)
    judges, wrong = _find_judges(list(named.values()), models_file, environment, note)
    for position, (place, name) in enumerate(named.items()):
        if position in wrong:
            text = f"judges[{place}]: `{name}`: {wrong[position]}"
            problems.append(Problem(text, document.line_of(("judges", place))))
    if content and (too_many := _too_many(content.at_least, len(content.judges))):
        problems.append(Problem(f"at_least: {too_many}", document.line_of(("at_least",))))
    if problems or content is None:
        raise ConfigError(document.place, problems)
    if too_many := _too_many(at_least, len(content.judges)):
        raise UserError(too_many)
    remarks = [entry.remark for entry in content.judges if entry.remark]
    return _make_jury(judges, content.at_least if at_least is None else at_least), remarks


def jury_warnings(jury: Jury, models: Sequence[Model]) -> list[str]:
    """Return a warning about a jury of one judge, and one for each judge that grades its own completions.

    Models are compared by their names at their servers, whatever the server: `openai/gpt-4o` at a gateway is OpenAI's
    `gpt-4o`.
    """
    tested = {plain_name(model.remote_name) for model in models}
    warnings = [
        f"{judge.name} is the only judge: nothing guards against its errors, and agreement between judges cannot be "
        "measured."
        for judge in jury.judges
        if len(jury.judges) == 1
    ]
    return warnings + [
        f"{judge.name} is a judge and also under test. Judges tend to prefer their own words; "
        "`medhelm jury` measures how much."
        for judge in jury.judges
        if plain_name(judge.remote_name) in tested
    ]


def _find_judges(
    names: Sequence[str],
    models_file: Path | None,
    environment: Mapping[str, str],
    note: Callable[[str], object] | None,
) -> tuple[list[Model], dict[int, str]]:
    """Return the models of these names, and position -> problem of the others."""
    found: dict[bytes, Model] = {}
    wrong: dict[int, str] = {}
    for position, name in enumerate(names):
        if name in names[:position]:
            wrong[position] = "is listed twice. A judge counts once."
            continue
        try:
            (model,) = find_models([name], file=models_file, environment=environment, note=note)
        except ConfigError:
            raise
        except UserError as error:
            wrong[position] = str(error).removeprefix(f"model `{name}`: ")
            continue
        if model.provider in _CANNOT_JUDGE:
            wrong[position] = _CANNOT_JUDGE[model.provider]
            continue
        # Judges of equal requests would share their replies, and one opinion would count twice.
        same = found.setdefault(Request(model=model, prompt=Prompt(()), max_tokens=1).content_digest, model)
        if same is not model:
            wrong[position] = f"is the same model as {same.name}. A judge counts once."
    return list(found.values()), wrong


def _make_jury(judges: Sequence[Model], at_least: int | None) -> Jury:
    return Jury(judges=tuple(judges), min_judges=at_least or min(AT_LEAST, len(judges)))


def _too_many(at_least: int | None, n_judges: int) -> str:
    """Return the problem of the number of judges that an instance needs; "" if there is none."""
    if at_least is None or 1 <= at_least <= n_judges:
        return ""
    return f"an instance cannot need {at_least} of {plural(n_judges, 'judge')}."
