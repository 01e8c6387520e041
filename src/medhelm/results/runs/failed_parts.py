"""Contributions of failed instances to ratios such as balanced accuracy, where they count as wrong answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from medhelm.domain import Instance, Parts, Reference, Rule, Run
from medhelm.scoring.metric import wrong_parts
from medhelm.scoring.metrics import METRICS
from medhelm.storage.runs import RunScores, read_columns, read_references
from medhelm.storage.store import Store


def parts_of_failures(run: Run, scored: RunScores, failed: NDArray[np.intp], rule: Rule) -> list[Parts]:
    """Return the parts of all instances, with those of wrong answers in place of failures.

    A run stores them for its failures. For a run of version 0.2.0 or older they are computed from the references that
    are stored with its prompts. Where these are missing, the failures are spread over the labels as the scored
    instances are.

    Parameters: failed, places of the failures that count.
    """
    assert scored.parts is not None, "only numbers that are not means have parts"
    found = list(scored.parts)
    is_stored = any(found[i] for i in np.flatnonzero(np.isnan(scored.values)).tolist())
    lacking = [] if is_stored else failed.tolist()
    if lacking:
        computed = _from_references(run, [scored.ids[i] for i in lacking], rule)
        spread = {} if any(computed) else _spread(scored)
        for i, own in zip(lacking, computed, strict=True):
            found[i] = own or spread
    return found


def _from_references(run: Run, ids: Sequence[str], rule: Rule) -> list[Parts]:
    """Return the parts of a wrong answer to each of these instances; empty where they cannot be computed."""
    metric = METRICS.if_usable(run.main_metric)
    if metric is None or run.folder is None:
        return [{}] * len(ids)
    prompts = Store(run.folder.resolve().parents[2]).prompts_file(run.benchmark, run.benchmark_digest, run.data_digest)
    known = read_references(prompts)
    columns = read_columns(run, ["instance_id", "group"])
    groups = dict(zip(columns["instance_id"], columns["group"], strict=True))
    found: list[Parts] = []
    for name in ids:
        choices, references = known.get(name, ((), ()))
        instance = Instance(
            id=name,
            fields={},
            references=tuple(Reference(text, correct) for text, correct in references),
            choices=tuple(choices),
            labels=tuple(choices),
            group=groups.get(name) or "",
        )
        found.append(wrong_parts(metric, instance, rule) if name in known else {})
    return found


def _spread(scored: RunScores) -> Parts:
    """Return the parts of an instance of unknown class: of each label, the mean denominator of scored instances."""
    known = [own for own, is_scored in zip(scored.parts or (), ~np.isnan(scored.values), strict=True) if is_scored]
    below: Counter[str] = Counter()
    for own in known:
        below.update({label: pair[1] for label, pair in own.items()})
    return {label: (0.0, total / len(known)) for label, total in below.items() if total > 0}
