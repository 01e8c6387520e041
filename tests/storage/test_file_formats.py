"""Files of version 1 come back unchanged, and tables hold every field."""

from __future__ import annotations

import asyncio
import json
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import (
    JURY,
    RULES,
    Completion,
    Failure,
    JudgeReply,
    Judgment,
    JuryVerdict,
    Record,
    Score,
    Usage,
)
from medhelm.extensions.paper.reference_filter.report import MARKS
from medhelm.models.cache import Cache
from medhelm.storage.judgments import (
    COMPLETION_COLUMNS,
    JUDGMENT_COLUMNS,
    completion_of,
    read_explanations,
    read_replies,
)
from medhelm.storage.releases import RELEASE, read_release
from medhelm.storage.runs import RECORD_COLUMNS, RunWriter, load_runs, read_baseline, read_record, write_baseline
from medhelm.storage.store import NAME, create, open_store, read_run, write_run
from medhelm.storage.unfinished import BATCH, Batches

STORES = Path(__file__).parent.parent / "fixtures" / "stores" / "v1"
RUNS = sorted(STORES.glob("*/runs/*/*/run.json"))


def found(pattern: str) -> list[Path]:
    paths = sorted(STORES.glob(pattern))
    assert paths
    return paths


# --- JSON files -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", RUNS, ids=lambda path: str(path.parent.relative_to(STORES)))
def test_run_json_is_as_before_but_for_its_format(path: Path, tmp_path: Path) -> None:
    write_run(tmp_path, read_run(path))
    assert (tmp_path / NAME).read_text(encoding="utf-8") == (
        '{\n  "format": 1,' + path.read_text(encoding="utf-8").removeprefix("{")
    )


@pytest.mark.parametrize("path", found("*/batches/*.json"), ids=lambda path: path.stem)
def test_files_of_batches_are_as_before(path: Path) -> None:
    """Two keys that nothing reads any more are not written again."""
    (batch,) = [batch for batch in Batches(open_store(path.parent.parent)).all() if batch.id == path.stem]
    before = json.loads(path.read_text(encoding="utf-8"))
    kept = {key: value for key, value in before.items() if key not in ("adopted", "strangers")}
    assert json.dumps(BATCH.write(batch)) == json.dumps(kept)


@pytest.mark.parametrize("path", found("*/prompts/*.floor.json"), ids=lambda path: path.stem)
def test_files_of_floors_are_as_before(path: Path, tmp_path: Path) -> None:
    write_baseline(tmp_path / "floor.json", read_baseline(path))
    assert (tmp_path / "floor.json").read_text(encoding="utf-8") == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", found("*/filters/*.json"), ids=lambda path: path.stem)
def test_files_of_filters_are_as_before(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert json.dumps(MARKS.write(MARKS.read(json.loads(text))), indent=1) + "\n" == text


@pytest.mark.parametrize("path", found("*/releases/*/release.json"), ids=lambda path: path.parts[-4])
def test_files_of_releases_are_as_before(path: Path) -> None:
    release = read_release(open_store(path.parents[2]), path.parent.name)
    content = {"medhelm_release": 1, **RELEASE.write(release)}
    assert json.dumps(content, indent=2, ensure_ascii=False) + "\n" == path.read_text(encoding="utf-8")


# --- tables: every field is kept --------------------------------------------------------------------------------------


def full(value: Any, *, besides: tuple[str, ...] = ()) -> Any:
    """The same, once it is known that all its fields hold something else than their defaults."""
    for one in fields(value):
        default = one.default_factory() if one.default_factory is not MISSING else one.default
        assert one.name in besides or getattr(value, one.name) != default, f"set {one.name} in this test"
    return value


USAGE: Usage = full(Usage(input=50, cached_input=5, output=7, reasoning=2, cache_write=3))
COMPLETION: Completion = full(
    Completion(
        text="yes",
        finish_reason="stop",
        usage=USAGE,
        latency_s=0.5,
        reported_model="model-1",
        fingerprint="fp",
        refused_parameters=("seed", "temperature"),
        batched=True,
        received=1.75e9,
        reasoning="yes or no?",
        token_logprobs='[["yes",-0.1,{"yes":-0.1}]]',
    ),
    besides=("failure",),
)
FAILED = Completion(failure=Failure("provider", "refusal", "no"), finish_reason="stop", usage=USAGE)


@pytest.mark.parametrize("completion", [COMPLETION, FAILED])
def test_the_cache_holds_all_of_a_completion(completion: Completion, tmp_path: Path) -> None:
    with Cache(tmp_path / "cache.sqlite") as cache:
        asyncio.run(cache.put(b"d", completion, model="m"))
        known = cache.get(b"d")
        assert known == completion
        assert completion.received in (None, known.received)
        assert completion.reasoning == known.reasoning
        assert completion.token_logprobs == known.token_logprobs


def test_tables_hold_all_of_a_record_and_of_what_judges_said(tmp_path: Path) -> None:
    reply: JudgeReply = full(
        JudgeReply(
            judge="j",
            prompt_index=1,
            attempt=1,
            completion=COMPLETION,
            request_digest=b"\x02" * 32,
            verification_code="7K2M-X0WD-9FTP",
        )
    )
    graded: Judgment = full(
        Judgment(judge="j", criterion="c", score=1.0, points=2.0, explanation="so"), besides=("failure",)
    )
    failed = Judgment(judge="j", criterion="d", score=None, failure=Failure("judge", "malformed_reply", "no JSON"))
    judged = JuryVerdict(scores=(), judgments=(graded, failed), coverage=0.5, subscores={"c": 1.0})
    record: Record = full(
        Record(
            position=0,
            instance_id="i",
            cluster="p",
            group="g",
            request_digest=b"\x01" * 32,
            completion=COMPLETION,
            truncated_characters=4,
            is_unreadable=True,
            scores=tuple(Score(metric=JURY, rule=rule, value=0.5) for rule in RULES),
            judge_replies=(reply,),
            jury_verdict=judged,
            injection_signs=("verdict", "length"),
        )
    )
    store = create(tmp_path / "store")
    writer = RunWriter(store, benchmark="toy", model="m", run_id="a" * 64, metrics=[JURY])
    writer.add(record)
    writer.finish(read_run(RUNS[0]))
    (run,) = load_runs(store)
    row = read_record(run, "i")
    assert row is not None
    assert list(row) == [*RECORD_COLUMNS, "jury_corrected", "jury_published"]
    assert not any(row[name] for name in ("failure_boundary", "failure_code", "failure_message", "score_failure"))
    assert {name: row[name] for name in row if name not in COMPLETION_COLUMNS} == {
        "position": 0,
        "instance_id": "i",
        "cluster": "p",
        "group": "g",
        "request_digest": "01" * 32,
        "left_out": 4,
        "completion": "yes",
        "score_failure": None,
        "suspicions": "verdict, length",
        "jury_coverage": 0.5,
        "unreadable": True,
        "reasoning": "yes or no?",
        "token_logprobs": COMPLETION.token_logprobs,
        "jury_corrected": 0.5,
        "jury_published": 0.5,
    }
    assert completion_of(row, row["completion"]) == COMPLETION
    assert read_replies(run) == {("i", "j"): [reply]}
    rows = (["j", "c", 1.0, 2.0, None, None, "so"], ["j", "d", None, 0.0, "malformed_reply", "no JSON", ""])
    names = list(JUDGMENT_COLUMNS)[2:]
    assert read_explanations(run, "i") == [dict(zip(names, values, strict=True)) for values in rows]
