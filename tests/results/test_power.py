"""Power in sentences; tables and JSON are in the approved outputs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from medhelm.analysis.comparison.power import (
    Noise,
    PowerDesign,
)
from medhelm.results.plan import calculated

AIM = PowerDesign()


@pytest.mark.parametrize(
    ("sd", "given", "said"),
    [
        (0.4, {"difference": 0.05}, "A true difference of 0.05 needs 508 instances (power 0.8, level 0.05)."),
        (0.4, {"instances": 500}, "500 instances detect true differences of 0.0504 or more (power 0.8, level 0.05)."),
        (0.4, {"instances": 3}, "3 instances are too few to detect any difference (power 0.8, level 0.05)."),
        (1.0, {"difference": 1e-7}, "A true difference of 1e-07 needs more than 1,000,000,000,000 instances."),
    ],
)
def test_the_calculator_answers_in_sentences(sd: float, given: dict[str, Any], said: str) -> None:
    content, sentences = calculated(Noise(sd=sd), AIM, **{"difference": None, "instances": None} | given)
    assert sentences == [said]
    json.dumps(content, allow_nan=False)
    assert content["instances"] == given.get("instances")
