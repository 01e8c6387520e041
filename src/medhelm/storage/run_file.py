"""`run.json`: a run's numbers and settings, without any text of patients or models."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from medhelm.domain import Estimate, JudgeTally, Jury, Model, Origin, Price, Run, Sitting, Taxonomy, Usage
from medhelm.errors import StoreError

NAME = "run.json"
"""Name of the file within a run's folder; it is written last, so that its existence means that the run is whole."""


def write_run(folder: Path, run: Run) -> None:
    """Write the file. The folder is where it lies, and is not written into it."""
    content = asdict(run)
    del content["folder"]
    (folder / NAME).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read_run(path: Path) -> Run:
    """The run in a file. Raises: StoreError if it is damaged."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        content["taxonomy"] = Taxonomy(**content["taxonomy"])
        content["usage"] = Usage(**content["usage"])
        content["estimates"] = {rule: _estimates(by_metric) for rule, by_metric in content["estimates"].items()}
        if content.get("reached"):
            content["reached"] = _model(content["reached"])
        if content.get("origin"):
            content["origin"] = Origin(**content["origin"])
        if content.get("sitting"):
            content["sitting"] = _sitting(content["sitting"])
        return Run(**{**content, "folder": path.parent})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path} is damaged ({error}). Remove its folder and run the same command again.") from error


def _estimates(content: Mapping[str, Any]) -> dict[str, Estimate]:
    return {name: Estimate(**estimate) for name, estimate in content.items()}


def _model(content: Mapping[str, Any]) -> Model:
    return Model(**{**content, "price": Price(**content["price"]) if content["price"] else None})


def _sitting(content: Mapping[str, Any]) -> Sitting:
    jury = content["jury"]
    tallies = {name: JudgeTally(**{**t, "usage": Usage(**t["usage"])}) for name, t in content["tallies"].items()}
    return Sitting(
        **{
            **content,
            "jury": Jury(judges=tuple(map(_model, jury["judges"])), at_least=jury["at_least"]),
            "lower_is_better": tuple(content["lower_is_better"]),
            "tallies": tallies,
            "labels": _estimates(content["labels"]),
        }
    )
