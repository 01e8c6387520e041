"""BERTScore (Zhang et al., 2020): similarity of a completion to a reference in meaning, from 0 to 1.

Each token of one text is matched with the most similar token of the other, by the cosine of their contextual vectors.
The mean similarity of the completion's tokens is the precision, that of the reference's tokens the recall, and
`bertscore` their harmonic mean. Settings of the reference implementation: distilbert-base-uncased, fifth layer, equal
weights, no rescaling. Without rescaling even unrelated texts score high, so only differences matter. The model's two
special tokens can be matched, but are not counted, as in the package `bert-score`. The model reads 512 tokens, special
ones included, about 350 words of English: the rest of a longer text is not compared. A run counts the instances with a
longer completion or reference. For each of the three values, the best one over all correct references counts.

The model knows English. In another script most words are the same unknown token to it, and different texts would be
equal: if less than half of the words of every reference, numbers aside, have a letter a-z, the score is missing.

Published rule. Surrounding white space of the completion is removed, then one `{` at the beginning and one `}` at the
end of completion and references.

Corrected rule. Only reasoning between <think> tags is removed.

A completion without tokens, or with negative similarity, scores 0 by both rules. Values are rounded to six decimals,
the limit of single precision.

The extra `neural` installs the packages: pip install --constraint constraints.txt '.[neural]'. The weights are read
from the folder in MEDHELM_BERTSCORE_MODEL, or from the local Hugging Face cache; nothing is downloaded. Without
packages or weights the score is missing. A GPU is used if present.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from medhelm.domain import Instance
from medhelm.domain.text import METRIC_TITLES
from medhelm.errors import DataError, NotComputed
from medhelm.scoring.answers.text import strip_reasoning
from medhelm.scoring.metric import Metric, ScoreFunction
from medhelm.scoring.metrics.rouge import is_mostly_latin, without_braces

if TYPE_CHECKING:
    from torch import Tensor

MODEL = "distilbert-base-uncased"
REVISION = "12040accade4e8a0f71eabdb258fecc2e7e948be"
"""Commit of the weights on the Hugging Face hub."""
LAYER = 5
"""Layer of the vectors, counted from 1; the best for this model in the authors' experiments."""
FOLDER = "MEDHELM_BERTSCORE_MODEL"
"""Environment variable with the folder of weights, tokenizer and configuration."""

_ONE_AT_A_TIME = Lock()  # the model already uses all cores, or the whole GPU, for one text


class BertScore(NamedTuple):
    """Similarity of a completion and a reference, each value from 0 to 1."""

    precision: float
    """Mean over the completion's tokens of the similarity to the most similar token of the reference."""
    recall: float
    """Mean over the reference's tokens of the similarity to the most similar token of the completion."""
    f1: float
    """Harmonic mean of precision and recall."""


_Kind = Callable[[BertScore], float]
"""Selects one of the three."""


class _Vectors(NamedTuple):
    """The token vectors of a text."""

    directions: Tensor
    """A unit vector for each token, special tokens included."""
    counts: Tensor
    """True for each token that counts in a mean: all but special tokens."""


class _Encoder:
    """The model and its tokenizer, in memory."""

    def __init__(self, folder: str) -> None:
        """Load both from `folder`. Raises NotComputed if they are not there."""
        import torch
        import transformers

        transformers.utils.logging.set_verbosity_error()  # it would report unused weights
        transformers.utils.logging.disable_progress_bar()  # and draw bars into the table of a run
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
        if len(self._tokenizer) != model.config.vocab_size:  # without its files an empty tokenizer is created
            raise NotComputed(f"{folder} does not hold {MODEL} with its tokenizer: tokenizer.json is missing")
        model.transformer.layer = layers[:LAYER]
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._model = model.eval().to(self._device)
        self._longest = min(self._tokenizer.model_max_length, model.config.max_position_embeddings)

    def vectors(self, text: str) -> _Vectors:
        """Encode as many tokens of `text` as the model can read."""
        import torch

        readable = text.strip().encode("utf-8", "replace").decode("utf-8")  # without unpaired surrogates
        tokens = self._tokenizer(readable, truncation=True, max_length=self._longest, return_tensors="pt")
        ids = tokens["input_ids"].to(self._device)
        with torch.inference_mode():
            states = self._model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state[0].double()
        marks = torch.tensor([self._tokenizer.cls_token_id, self._tokenizer.sep_token_id], device=self._device)
        return _Vectors(torch.nn.functional.normalize(states, dim=-1), ~torch.isin(ids[0], marks))

    def is_too_long(self, text: str) -> bool:
        """Return whether a text has more tokens than the model can read."""
        tokens: list[int] = self._tokenizer(text.strip(), verbose=False)["input_ids"]
        return bool(len(tokens) > self._longest)


def similarity(reference: str, completion: str) -> BertScore:
    """Compare a completion with a reference, one at a time. Raises NotComputed if packages or weights are missing."""
    with _ONE_AT_A_TIME:
        return _similarity(os.environ.get(FOLDER, ""), reference, completion)


@lru_cache(maxsize=256)
def _similarity(folder: str, reference: str, completion: str) -> BertScore:
    """Compare by the weights in `folder`. Cached: three metrics with two rules mostly need the same pair."""
    encoder = _encoder(folder)
    if isinstance(encoder, str):
        raise NotComputed(encoder)
    sought, found = encoder.vectors(reference), encoder.vectors(completion)
    if not (sought.counts.any() and found.counts.any()):
        return BertScore(0.0, 0.0, 0.0)
    cosines = found.directions @ sought.directions.T
    precision = max(float(cosines.amax(dim=1)[found.counts].mean()), 0.0)
    recall = max(float(cosines.amax(dim=0)[sought.counts].mean()), 0.0)
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return BertScore(round(precision, 6), round(recall, 6), round(f1, 6))


@lru_cache(maxsize=1)
def _encoder(folder: str) -> _Encoder | str:
    """Return the model, or the reason why it cannot be loaded. Cached, so that the search is done once."""
    missing = [name for name in ("torch", "transformers") if find_spec(name) is None]
    if missing:
        command = "pip install --constraint constraints.txt '.[neural]'"
        return f"BERTScore needs {' and '.join(missing)}: in a checkout, `{command}`"
    try:
        return _Encoder(folder or _cached_folder())
    except NotComputed as error:
        return str(error)


def _cached_folder() -> str:
    """Return the folder of the model in the local Hugging Face cache. Raises NotComputed if it is not there."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    for name in (MODEL, f"distilbert/{MODEL}"):
        try:
            return str(snapshot_download(name, revision=REVISION, local_files_only=True))
        except LocalEntryNotFoundError:
            continue
    raise NotComputed(
        f"BERTScore needs the weights of {MODEL}, which are not downloaded automatically: set {FOLDER} to their "
        f"folder, or run: hf download distilbert/{MODEL} --revision {REVISION}"
    )


def _published(kind: _Kind) -> ScoreFunction:
    """Build the published rule of one of the three."""

    def rate(completion: str, instance: Instance) -> float:
        text = without_braces(completion.strip())
        return max(kind(similarity(without_braces(reference), text)) for reference in _references(instance))

    return rate


def _corrected(kind: _Kind) -> ScoreFunction:
    """Build the corrected rule of one of the three."""

    def rate(completion: str, instance: Instance) -> float:
        text = strip_reasoning(completion).strip()
        return max(kind(similarity(reference, text)) for reference in _references(instance))

    return rate


def _cuts(completion: str, instance: Instance) -> bool:
    """Return whether the end of the completion or of a reference is not compared, by the corrected rule."""
    return any(map(_is_too_long, (strip_reasoning(completion).strip(), *_references(instance))))


@lru_cache(maxsize=1024)
def _is_too_long(text: str) -> bool:
    """Return whether a text is longer than the model reads. Cached, because models share the references."""
    with _ONE_AT_A_TIME:
        encoder = _encoder(os.environ.get(FOLDER, ""))
        return not isinstance(encoder, str) and encoder.is_too_long(text)


def _references(instance: Instance) -> tuple[str, ...]:
    """Return the correct references that the model can read and that are not empty. Raises DataError without any."""
    references = tuple(text for text in instance.correct if text.strip())
    if not references:
        raise DataError("every correct reference is empty, so there is nothing to compare; check the answer column")
    readable = tuple(filter(is_mostly_latin, references))
    if not readable:
        raise DataError(
            f"{MODEL} reads English, and less than half of the reference's words have letters a-z; "
            "leave this metric out"
        )
    return readable


def _metric(name: str, description: str, kind: _Kind) -> Metric:
    """Build one of the three metrics."""
    return Metric(
        name=name,
        title=METRIC_TITLES[name],
        description=f"{description} Only the first 512 tokens of a text are compared. An empty completion scores 0.",
        source=f"BERTScore (Zhang et al., 2020), as in bert-score 0.3.13 with {MODEL}; published rule: HELM",
        published=_published(kind),
        corrected=_corrected(kind),
        cuts=_cuts,
        slow=True,
        neural=True,
    )


BERTSCORE = _metric(
    "bertscore",
    "Similarity in meaning to the reference, token by token: F1.",
    lambda found: found.f1,
)
BERTSCORE_PRECISION = _metric(
    "bertscore_precision",
    "Mean similarity of the completion's tokens to those of the reference.",
    lambda found: found.precision,
)
BERTSCORE_RECALL = _metric(
    "bertscore_recall",
    "Mean similarity of the reference's tokens to those of the completion.",
    lambda found: found.recall,
)
