"""The jury file, jury.yaml.

It lists the `judges`, and how many of them an instance needs (`at_least`). It is read only if the user names it,
because prompts and completions are sent to the models in it. The reference implementation's file of judges is read as
well: a list of mappings with `name`, `model` and `model_deployment`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from medhelm.errors import ConfigError, Problem
from medhelm.io.strict_yaml import YamlDocument, read_yaml, validate


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class JudgeEntry(_Strict):
    """One judge: the name of a model, or a mapping as the reference implementation writes it."""

    model: str = ""
    """Name of the model."""
    model_name: str = ""
    """The same, in the judges of a custom benchmark there; `name` is the deployment then."""
    name: str = ""
    """The reference implementation's name for the judge."""
    model_deployment: str = ""
    """The reference implementation's deployment of it."""

    @model_validator(mode="before")
    @classmethod
    def _normalize(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"model": value}
        if not isinstance(value, dict):
            raise ValueError("must be the name of a model, such as openai/gpt-4o.")
        return value

    @model_validator(mode="after")
    def _check_one_model(self) -> JudgeEntry:
        if bool(self.model) == bool(self.model_name):
            raise ValueError("must name one model under `model`.")
        return self

    @property
    def judge(self) -> str:
        """Name of the model."""
        return self.model or self.model_name

    @property
    def remark(self) -> str:
        """Return a note on what is not used of the entry; "" if all is used."""
        called, deployment = (self.name, self.model_deployment) if self.model else ("", self.name)
        said = [f"is called this here, not `{called}`"] if called not in ("", self.judge) else []
        said += [f"its deployment `{deployment}` there is not used"] if deployment else []
        return f"judge {self.judge}: {', and '.join(said)}." if said else ""


class JuryFile(_Strict):
    """The whole file."""

    judges: Annotated[list[JudgeEntry], Field(min_length=1)]
    at_least: Annotated[int, Field(ge=1)] | None = None


def read_jury_file(file: Path) -> tuple[YamlDocument, JuryFile | None, list[Problem]]:
    """Return the file, for the lines of problems, its content, None if that is invalid, and the problems of its form.

    Raises: ConfigError if nothing can be read.
    """
    document = read_yaml(file)
    try:
        return document, validate(document, JuryFile), []
    except ConfigError as error:
        return document, None, list(error.problems)


def judge_names(document: YamlDocument) -> dict[int, str]:
    """Return position -> name of the judges that can be read, whatever else is wrong with the file."""
    entries = document.data.get("judges") if isinstance(document.data, dict) else None
    names: dict[int, str] = {}
    for position, entry in enumerate(entries if isinstance(entries, list) else ()):
        name = entry.get("model") or entry.get("model_name") if isinstance(entry, dict) else entry
        if name and isinstance(name, str):
            names[position] = name
    return names
