"""Material and question of a case, from stored prompts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import Instance, Message, Prompt, Reference
from medhelm.extensions.study import texts
from medhelm.extensions.study.texts import LONG_SECTION, material_of
from medhelm.extensions.study.types import Item
from medhelm.storage.runs import write_prompts
from medhelm.storage.store import Store
from tests.support.planned_studies import definitions
from tests.support.stores import make_record, make_run, write_run

VISIT = "[doctor] Hello. " * 100


def case(folder: Path, messages: tuple[Message, ...], choices: tuple[str, ...] = (), prompt: str = "") -> Any:
    """Return the material and the question of a stored prompt; `prompt`: the template, "" for an unknown benchmark."""
    run = write_run(folder, make_run("letters", n=1), [make_record(0)])
    store = Store(folder)
    instance = Instance(id="i0", fields={}, references=(Reference("Yes"),), choices=choices)
    path = store.prompts_file("letters", run.benchmark_digest, run.data_digest)
    write_prompts(path, [(instance, Prompt(messages))])
    definition = replace(definitions()[0], name="letters", prompt=prompt) if prompt else None
    assert run.folder
    place = run.folder.relative_to(folder).as_posix()
    item = Item(
        id="a" * 16, benchmark="letters", instance_id="i0", model="m", run=place, completion_sha256="", probability=1
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(texts, "known_definition", lambda *_: definition)
        material, question = material_of(store, item)
    return [(one.title, one.text) for one in material], question


def test_long_fields_are_material_and_short_ones_belong_to_the_question(tmp_path: Path) -> None:
    template = (
        "Answer from the visit, which was written down in the ward for the patient who\nhad a fall.\n\n"
        "Visit: {visit}\n\nQuestion: {question}\n\nReply with the dose only, without words.\nAnswer:"
    )
    text = template.format(visit=VISIT.strip(), question="Which dose?")
    material, question = case(tmp_path, (Message("user", text),), prompt=template)
    assert material == [("Visit", VISIT.strip())]
    assert question == (
        "Answer from the visit, which was written down in the ward for the patient who had a fall.\n\n"
        "Visit: (see Visit in the material)\n\nQuestion: Which dose?"
    )


def test_a_field_without_text_leaves_no_placeholder(tmp_path: Path) -> None:
    template = "Summarize the visit.\n\n{visit}\n\n{question}"
    text = template.format(visit=VISIT.strip(), question="")
    material, question = case(tmp_path, (Message("user", text),), prompt=template)
    assert material == [("Visit", VISIT.strip())]
    assert question == "Summarize the visit.\n\n(see Visit in the material)"


def test_options_are_part_of_the_question(tmp_path: Path) -> None:
    template = "Is it safe? {note}\n{options}\nAnswer:"
    text = "Is it safe? Aspirin.\nA. Yes\nB. No\nAnswer:"
    assert case(tmp_path, (Message("user", text),), ("Yes", "No"), template) == (
        [],
        "Is it safe? Aspirin.\nA. Yes\nB. No",
    )


@pytest.mark.parametrize("prompt", ["", "Another {template}"])
def test_the_words_of_a_patient_are_never_cut(tmp_path: Path, prompt: str) -> None:
    text = "Reply in simple words only, please.\n\nMy medicines:"
    assert case(tmp_path, (Message("user", text),), prompt=prompt) == ([], text)
    talk = (Message("user", "I have a cold."), Message("assistant", "Since when?"), Message("user", text))
    assert case(tmp_path / "talk", talk) == ([("User", "I have a cold."), ("Assistant", "Since when?")], text)


def test_long_material_is_split_and_nothing_is_lost(tmp_path: Path) -> None:
    note = "\n\n".join(f"Day {day}: " + "slept well. " * 40 for day in range(60))
    template = "Note: {note}\nSummarize it."
    material, question = case(tmp_path, (Message("user", template.format(note=note.strip())),), prompt=template)
    assert question == "Note: (see Note in the material)\nSummarize it."
    assert [title for title, _ in material] == [
        f"Note, part {n} of {len(material)}" for n in range(1, len(material) + 1)
    ]
    assert len(material) > 3
    assert all(len(text) <= LONG_SECTION for _, text in material)
    assert "".join(text for _, text in material).split() == note.split()
