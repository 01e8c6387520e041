"""Options of a ranking of models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from medhelm.domain.option_fields import option
from medhelm.domain.result import Resample
from medhelm.domain.text import AnyNames


def _parse_panel(text: str) -> tuple[str, ...]:
    """Return the model names in a comma-separated list, each once. Raises: ValueError."""
    names = tuple(dict.fromkeys(filter(None, (name.strip() for name in text.split(",")))))
    if not names:
        raise ValueError("the list names no model.")
    return names


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingOptions:
    """Options of a ranking of models."""

    shared: bool = option("--shared", "Only benchmarks on which every model has a score.", False, group="ranking")
    resample: Resample | None = option(
        "--resample",
        "Unit to resample for intervals and tests; none: do not read records.  [default: instances, if their scores "
        "are known]",
        group="ranking",
        choices=get_args(Resample),
    )
    rank_baselines: bool = option(
        "--rank-baselines", "Rank baselines with the models instead of showing them below.", False, group="ranking"
    )
    panel: AnyNames = option(
        "--panel",
        "Models to compare with for win shares and win rates, so that the numbers do not change when other models are "
        "added; `published`: the nine published models.  [default: all other models on the leaderboard]",
        (),
        group="ranking",
        metavar="MODEL,...",
        parse=_parse_panel,
    )


USUAL_RANKING = RankingOptions()
"""The defaults."""
