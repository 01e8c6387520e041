"""How near an answer is to a reference in meaning, by a language model: BERTScore (Zhang et al., 2020).

Each token of one text is matched with the most similar token of the other (cosine of their vectors in context). The
mean similarity of the answer's tokens is the precision, that of the reference's tokens the recall, and `bertscore`
their harmonic mean. Settings of the reference implementation: distilbert-base-uncased, the vectors of its fifth layer,
every token of equal weight, no rescaling; without it the values are high even for unrelated texts, so that differences
matter, not heights. The two marks that the model puts around a text may be matched, but do not count themselves, as in
the package `bert-score`. A text is cut after the 512 tokens that the model can read, marks included. The best value
over all right references counts, for each of the three by itself.

Published rule. The completion is stripped of surrounding blanks; then completion and references lose a `{` at their
beginning and a `}` at their end.

Corrected rule. Reasoning between <think> tags is no part of an answer; nothing else is removed.

An answer without tokens scores 0 by both rules, and so does one whose similarity is negative. Values are rounded to six
decimals: single precision holds no more.

The extra `neural` brings the packages: pip install --constraint constraints.txt '.[neural]'. The weights are read from
the folder that MEDHELM_BERTSCORE_MODEL names, or from the local cache of Hugging Face; nothing is downloaded. Where
something is missing, the score is missing. With a GPU it is used.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from medhelm.domain import Instance
from medhelm.errors import DataError, NotComputed
from medhelm.scoring.answers.plain_text import strip_reasoning
from medhelm.scoring.metric import Metric, ScoreFunction
from medhelm.scoring.metrics.rouge import without_braces

if TYPE_CHECKING:
    from torch import Tensor

MODEL = "distilbert-base-uncased"
REVISION = "12040accade4e8a0f71eabdb258fecc2e7e948be"
"""Commit of the weights on the Hugging Face hub."""
LAYER = 5
"""Whose vectors are compared, counted from 1; the best for this model in the authors' experiments."""
FOLDER = "MEDHELM_BERTSCORE_MODEL"
"""Environment variable with the folder of the weights, the tokenizer and their configuration."""

_ONE_AT_A_TIME = Lock()  # the model uses all cores, or the whole GPU, for one text already


class BertScore(NamedTuple):
    """How near an answer and a reference are, each from 0 to 1."""

    precision: float
    """Mean over the tokens of the answer of their likeness to the nearest token of the reference."""
    recall: float
    """Mean over the tokens of the reference of their likeness to the nearest token of the answer."""
    f1: float
    """Harmonic mean of the two."""


_Kind = Callable[[BertScore], float]
"""Which of the three."""


class _Vectors(NamedTuple):
    """The tokens of a text."""

    directions: Tensor
    """A unit vector for each token, the marks around the text included."""
    counts: Tensor
    """Whether each token counts in a mean; the marks do not."""


class _Encoder:
    """The model and its tokenizer, in memory."""

    def __init__(self, folder: str) -> None:
        """Load both from `folder`. Raises NotComputed if it does not hold them."""
        import torch
        import transformers

        transformers.utils.logging.set_verbosity_error()  # it would report which weights it does not use,
        transformers.utils.logging.disable_progress_bar()  # and draw bars into the table of a running evaluation
        try:
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
            model, loaded = transformers.DistilBertModel.from_pretrained(
                folder, local_files_only=True, use_safetensors=True, dtype=torch.float32, output_loading_info=True
            )
        except (OSError, ValueError, RuntimeError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise NotComputed(f"{folder} does not hold {MODEL} with its tokenizer: {reason}") from error
        layers = model.transformer.layer
        if loaded["missing_keys"] or len(layers) < LAYER:
            raise NotComputed(f"{folder} does not hold {MODEL}: weights of its first {LAYER} layers are missing")
        if len(self._tokenizer) != model.config.vocab_size:  # without its files an empty one is made up
            raise NotComputed(f"{folder} does not hold {MODEL} with its tokenizer: tokenizer.json is missing")
        model.transformer.layer = layers[:LAYER]
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._model = model.eval().to(self._device)
        self._longest = min(self._tokenizer.model_max_length, model.config.max_position_embeddings)

    def vectors(self, text: str) -> _Vectors:
        """The tokens of `text` in their context, as many as the model can read."""
        import torch

        readable = text.strip().encode("utf-8", "replace").decode("utf-8")  # no half of a surrogate pair
        tokens = self._tokenizer(readable, truncation=True, max_length=self._longest, return_tensors="pt")
        ids = tokens["input_ids"].to(self._device)
        with torch.inference_mode():
            states = self._model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state[0].double()
        marks = torch.tensor([self._tokenizer.cls_token_id, self._tokenizer.sep_token_id], device=self._device)
        return _Vectors(torch.nn.functional.normalize(states, dim=-1), ~torch.isin(ids[0], marks))


def similarity(reference: str, answer: str) -> BertScore:
    """How near `answer` is to `reference`. Raises NotComputed if packages or weights are missing.

    Calls from several threads wait for each other.
    """
    with _ONE_AT_A_TIME:
        return _similarity(os.environ.get(FOLDER, ""), reference, answer)


@lru_cache(maxsize=256)
def _similarity(folder: str, reference: str, answer: str) -> BertScore:
    """`similarity` by the weights in `folder`. Kept for a while: three metrics by two rules mostly ask for the same."""
    encoder = _encoder(folder)
    if isinstance(encoder, str):
        raise NotComputed(encoder)
    sought, found = encoder.vectors(reference), encoder.vectors(answer)
    if not (sought.counts.any() and found.counts.any()):
        return BertScore(0.0, 0.0, 0.0)
    cosines = found.directions @ sought.directions.T
    precision = max(float(cosines.amax(dim=1)[found.counts].mean()), 0.0)
    recall = max(float(cosines.amax(dim=0)[sought.counts].mean()), 0.0)
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return BertScore(round(precision, 6), round(recall, 6), round(f1, 6))


@lru_cache(maxsize=1)
def _encoder(folder: str) -> _Encoder | str:
    """The model, or why there is none; the search is not repeated for every answer."""
    missing = [name for name in ("torch", "transformers") if find_spec(name) is None]
    if missing:
        return f"BERTScore needs {' and '.join(missing)}: install the extra `neural`, see constraints.txt"
    try:
        return _Encoder(folder or _cached_folder())
    except NotComputed as error:
        return str(error)


def _cached_folder() -> str:
    """Where the local cache of Hugging Face keeps the model. Raises NotComputed if it does not have it."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    for name in (MODEL, f"distilbert/{MODEL}"):
        try:
            return str(snapshot_download(name, revision=REVISION, local_files_only=True))
        except LocalEntryNotFoundError:
            continue
    raise NotComputed(
        f"BERTScore needs the weights of {MODEL}, which are not downloaded by themselves: name a folder that holds "
        f"them in {FOLDER}, or run: hf download distilbert/{MODEL} --revision {REVISION}"
    )


def _published(kind: _Kind) -> ScoreFunction:
    """One of the three by the published rule."""

    def rate(reply: str, instance: Instance) -> float:
        answer = without_braces(reply.strip())
        return max(kind(similarity(without_braces(reference), answer)) for reference in _references(instance))

    return rate


def _corrected(kind: _Kind) -> ScoreFunction:
    """One of the three by the corrected rule."""

    def rate(reply: str, instance: Instance) -> float:
        answer = strip_reasoning(reply).strip()
        return max(kind(similarity(reference, answer)) for reference in _references(instance))

    return rate


def _references(instance: Instance) -> tuple[str, ...]:
    """Texts of the right references that say something. Raises DataError if there is none."""
    references = tuple(text for text in instance.correct if text.strip())
    if not references:
        raise DataError("no right reference has a text, so there is nothing to compare; check the answer column")
    return references


def _metric(name: str, title: str, description: str, kind: _Kind) -> Metric:
    """One of the three."""
    return Metric(
        name=name,
        title=title,
        description=f"{description} An empty answer scores 0.",
        source=f"BERTScore (Zhang et al., 2020), as in bert-score 0.3.13 with {MODEL}; published rule: HELM",
        published=_published(kind),
        corrected=_corrected(kind),
        slow=True,
    )


BERTSCORE = _metric(
    "bertscore",
    "BERTScore",
    "Likeness in meaning to the reference, token by token: F1.",
    lambda found: found.f1,
)
"""How near an answer and a reference are."""

BERTSCORE_PRECISION = _metric(
    "bertscore_precision",
    "BERTScore P",
    "How near the tokens of an answer are to those of the reference.",
    lambda found: found.precision,
)
"""How much of an answer is in the reference."""

BERTSCORE_RECALL = _metric(
    "bertscore_recall",
    "BERTScore R",
    "How near the tokens of the reference are to those of an answer.",
    lambda found: found.recall,
)
"""How much of the reference is in an answer."""
