"""Completions that tell their model are found, and ordinary words are not."""

from __future__ import annotations

from pathlib import Path

from medhelm.extensions.study.plans.identification import Finding, FindingKind
from medhelm.extensions.study.plans.planning import PlanOptions, plan_study
from medhelm.storage.store import Store
from tests.support.planned_studies import MODELS, definitions, rated_store

ROCKET, SATURN, GPT = MODELS


def findings(folder: Path, *texts: dict[str, str]) -> list[Finding]:
    """Return what is found if completion n of a model ends with the nth of these texts, the last one from there on."""

    def text(_name: str, model: str, number: int) -> str:
        return f"Rest and drink enough on day {number}. {texts[min(number, len(texts) - 1)].get(model, '')}".strip()

    n = max(8, len(texts))
    store: Store = rated_store(folder, {"aci_bench": True}, text, models=MODELS, n=n)
    options = PlanOptions(name="s", n_raters=2, n_cases=n, n_calibration=0)
    return list(plan_study(store, definitions(), options).findings)


TELLING = [
    ("I am Rocket 7B.", FindingKind.OWN_NAME, "Rocket 7B"),
    ("Written by rocket_7b!", FindingKind.OWN_NAME, "rocket_7b"),
    ("The Rocket team wishes you well.", FindingKind.OWN_NAME, "Rocket"),
    ("As good as saturn-70b.", FindingKind.OTHER_NAME, "saturn-70b"),
    ("I'm Claude.", FindingKind.OTHER_NAME, "Claude"),
    ("ChatGPT can make mistakes.", FindingKind.OTHER_NAME, "ChatGPT"),
    ("Ask DeepSeek.", FindingKind.OTHER_NAME, "DeepSeek"),
    ("As an AI language model, I cannot examine you.", FindingKind.SELF_DESCRIPTION, "As an AI language model"),
    ("I'm just a helpful virtual assistant.", FindingKind.SELF_DESCRIPTION, "I'm just a helpful virtual assistant"),
    ("I was trained by engineers.", FindingKind.SELF_DESCRIPTION, "I was trained by engineers"),
    ("Made at Acme.", FindingKind.OWN_NAME, "Acme"),
    ("My knowledge cutoff is 2023.", FindingKind.SELF_DESCRIPTION, "My knowledge cutoff"),
    ("Take care.<|im_end|>", FindingKind.MARKER, "<|im_end|>"),
    ("[/INST] Take care.", FindingKind.MARKER, "[/INST]"),
]
"""Text of a completion of ROCKET, the kind of what is found, and the words."""

ORDINARY = (
    "PHI was removed. The command was clear, and her claudication is better.",
    "The patient was trained by a physical therapist. The model of care was developed by the ward.",
    "SpO2 < 90 %, pH > 7.3, <1 mg/dL and > 60 mL/min.",
    "The patient used her phone to call a saturated line.",
)


def test_names_self_descriptions_and_markers_are_found_and_ordinary_words_are_not(tmp_path: Path) -> None:
    found = findings(
        tmp_path, *({ROCKET: text} for text, _, _ in TELLING), *(dict.fromkeys(MODELS, text) for text in ORDINARY), {}
    )
    assert {(one.model, one.kind, one.text) for one in found} == {(ROCKET, kind, words) for _, kind, words in TELLING}
    assert len({one.item for one in found}) == len(found) == len(TELLING)
    for one in found:
        (text,) = (text for text, kind, words in TELLING if (kind, words) == (one.kind, one.text))
        day = TELLING.index((text, one.kind, one.text))
        assert one.start == len(f"Rest and drink enough on day {day}. ") + text.index(one.text)


def test_a_part_of_a_name_that_others_use_as_well_is_an_ordinary_word(tmp_path: Path) -> None:
    assert findings(tmp_path, dict.fromkeys(MODELS, "A rocket science it is not.")) == []


def test_a_sentence_of_most_completions_of_one_model_alone_is_a_signature(tmp_path: Path) -> None:
    found = findings(tmp_path, {SATURN: "Stay well 1!", GPT: "Ask your doctor.", ROCKET: "Ask your doctor."})
    assert {(one.model, one.kind, one.text, one.start) for one in found} == {
        (SATURN, FindingKind.SIGNATURE, "Stay well 1!", len("Rest and drink enough on day 1. "))
    }
    assert len(found) == 8
