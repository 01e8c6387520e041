"""Find completions that can reveal their model to raters, for the owner of a study; nothing is removed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from medhelm.extensions.study.texts import shown_texts
from medhelm.extensions.study.types import Item, Study
from medhelm.storage.json_form import JsonForm, Nested, key_map
from medhelm.storage.store import Store


class FindingKind(StrEnum):
    """Kind of passage that can reveal a model."""

    OWN_NAME = "own_name"
    """It names its model, or a part of the name that no other model uses."""
    OTHER_NAME = "other_name"
    """It names another model, a family of models or a company that makes them."""
    SELF_DESCRIPTION = "self_description"
    """It says that it is a language model, or what that was trained on."""
    MARKER = "marker"
    """It has a special token of a family of models."""
    SIGNATURE = "signature"
    """A sentence that is in most completions of its model and in few of others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A passage that can reveal to raters which model wrote a completion."""

    item: str
    """Id of the item."""
    model: str
    """Name of its model."""
    kind: FindingKind
    """Its kind."""
    text: str
    """The passage."""
    start: int
    """Position of its first character in the completion as shown."""


FINDING_FORM = JsonForm(Finding, key_map("item model kind text start"), nested={"kind": Nested(str, FindingKind)})

_FAMILIES = re.compile(
    r"""(?ix) \b (?:
        open[ ]?ai | chat[ ]?gpt | gpt[- ]?(?:\d\w*|neo\w*|oss) | anthropic | claude | deep[ ]?mind | gemini | gemma
      | med[- ]?gemma | (?:med-?)?palm[- ]?2 | google[ ](?:ai|assistant|bard) | code[ ]?llama | llama(?:[- ]?\d\S*)?
      | meta[ ]ai | mi[sx]tral\w*(?:[ ]ai)? | bio[ ]?mistral | qwen\w* | tongyi | alibaba(?:[ ]cloud)?
      | deep[ ]?seek\w* | x\.?ai | grok(?:[- ]?\d)? | cohere | command[- ]r | phi-?\d\w* | microsoft[ ]copilot
      | bing[ ]chat | nemotron | yi-\d+b | baichuan | chat[ ]?glm | glm-\d\S* | ernie[ ]?bot | baidu | kimi
      | moonshot[ ]ai | perplexity[ ]ai | meditron | open[ ]?bio[ ]?llm | watsonx | ibm[ ]granite | ai21 | jamba
      | falcon-?\d+b | hunyuan | doubao | byte[ ]?dance | minimax | amazon[ ](?:nova|titan) | vicuna | hugging[ ]?face
    ) \b"""
)
_PROGRAM = r"(?:\w+[ ]){0,2}(?:ai|artificial[ ]intelligence|language[ ]model|llm|chatbot|virtual[ ]assistant)\b"
_SELF = re.compile(
    rf"""(?ix) \b (?:
        as[ ]an?[ ]{_PROGRAM} | I(?:'m|[ ]am)[ ](?:just[ ]|only[ ])?an?[ ]{_PROGRAM}
      | (?:my|the)[ ](?:last[ ])?(?:knowledge|training)(?:[ ]data)?[ ](?:update|cut-?[ ]?off|(?:only[ ])?goes\b|ends\b)
      | (?:knowledge|training)[ ]cut-?[ ]?off
      | (?:I(?:'m|[ ]am|[ ]was)|assistant|(?:language|ai)[ ]model)\b[^.\n]{{0,40}}
        \b(?:developed|created|trained|built|made)[ ]by[ ]\w+
    )"""
)
_MARKERS = re.compile(
    r"""(?ix) <[|｜][^<>\n]{1,40}[|｜]> | </?s> | \[/?INST\] | <</?SYS>> | </?think(?:ing)?> | \[/?THINK\]
      | <(?:start|end)_of_turn> | <unused\d+> | <(?:bos|eos|pad|unk)> | ◁/?think▷"""
)

LEAST_OF_NAME = 4
"""Letters that a part of a model's name needs to be looked for alone."""

LEAST_FOR_SIGNATURE = 3
"""Completions of a model that must share a sentence."""


def identification_findings(store: Store, study: Study) -> list[Finding]:
    """Find all passages that can reveal to raters which model wrote a completion, by item and place.

    The study need not be stored. Completions that are not in the store any more are left out.
    """
    shown = shown_texts(store, study)
    items = {item.id: item for item in study.items if item.id in shown}
    found = [*_passages(study, items, shown), *_signatures(items, shown)]
    places = {item: place for place, item in enumerate(items)}
    return sorted(found, key=lambda one: (places[one.item], one.start, one.kind))


def _passages(study: Study, items: Mapping[str, Item], shown: Mapping[str, str]) -> Iterator[Finding]:
    """Yield names, self-descriptions and markers; of passages that overlap, the first kind."""
    whole = {model: _name_pattern(model) for model in study.models}
    parts = _parts_of_names(study, items, shown)
    for name, item in items.items():
        taken: list[range] = []
        others = [pattern for model, pattern in whole.items() if model != item.model]
        own = [whole[item.model], *parts[item.model]]
        for kind, patterns in (
            (FindingKind.OWN_NAME, own),
            (FindingKind.OTHER_NAME, [*others, _FAMILIES]),
            (FindingKind.SELF_DESCRIPTION, [_SELF]),
            (FindingKind.MARKER, [_MARKERS]),
        ):
            for match in (match for pattern in patterns for match in pattern.finditer(shown[name])):
                if not any(match.start() < other.stop and other.start < match.end() for other in taken):
                    taken.append(range(*match.span()))
                    yield Finding(item=name, model=item.model, kind=kind, text=match[0], start=match.start())


def _name_pattern(model: str) -> re.Pattern[str]:
    """Return the pattern of a model's name without provider and address, with any sign between its parts."""
    pieces = _pieces(model)
    return re.compile(r"(?<!\w)" + r"[-_. ]?".join(map(re.escape, pieces)) + r"(?!\w)", re.IGNORECASE)


def _pieces(model: str) -> list[str]:
    """Return the words and numbers of a model's name.

    >>> _pieces("openai/gpt-4o-mini@http://127.0.0.1:8000/v1")
    ['gpt', '4o', 'mini']
    """
    name = model.partition("@")[0].rpartition("/")[2]
    return re.findall(r"[^\W_]+(?:\.\d+)?", name) or [name]


def _parts_of_names(
    study: Study, items: Mapping[str, Item], shown: Mapping[str, str]
) -> dict[str, list[re.Pattern[str]]]:
    """Return model -> patterns of those parts of its name that only its own completions have.

    A word that other models use as well, such as `clinic`, is an ordinary one.
    """
    found: dict[str, list[re.Pattern[str]]] = {}
    for model in study.models:
        provider = model.partition("/")[0] if "/" in model.partition("@")[0] else ""
        words = {
            word.casefold() for word in (*_pieces(model), provider) if sum(map(str.isalpha, word)) >= LEAST_OF_NAME
        }
        others = "\n".join(text for name, text in shown.items() if items[name].model != model)
        patterns = [re.compile(rf"(?<!\w){re.escape(word)}(?!\w)", re.IGNORECASE) for word in sorted(words)]
        found[model] = [pattern for pattern in patterns if not pattern.search(others)]
    return found


# --- signatures -------------------------------------------------------------------------------------------------------

_SENTENCE = re.compile(r"[^\n.!?:]*[^\n.!?:\s][^\n.!?:]*(?:[.!?:](?=[^\s])[^\n.!?:]*)*[.!?:]*")


def _signatures(items: Mapping[str, Item], shown: Mapping[str, str]) -> Iterator[Finding]:
    """Yield the sentences that more than half of a model's completions share, and few of others."""
    places = {name: _sentences(text) for name, text in shown.items()}
    n = Counter(items[name].model for name in shown)
    counts: dict[str, Counter[str]] = {model: Counter() for model in n}
    for name, sentences in places.items():
        counts[items[name].model].update(sentences.keys())
    if len(n) < 2:
        return
    revealing: dict[str, set[str]] = {}
    for model, own in counts.items():
        n_others = n.total() - n[model]
        revealing[model] = set()
        for sentence, count in own.items():
            share = count / n[model]
            of_others = sum(other[sentence] for name, other in counts.items() if name != model) / n_others
            if count >= LEAST_FOR_SIGNATURE and share > 0.5 and of_others < share / 4:
                revealing[model].add(sentence)
    for name, sentences in places.items():
        for sentence, (start, text) in sentences.items():
            if sentence in revealing[items[name].model]:
                model = items[name].model
                yield Finding(item=name, model=model, kind=FindingKind.SIGNATURE, text=text, start=start)


def _sentences(text: str) -> dict[str, tuple[int, str]]:
    """Return the different sentences of a text, without case, numbers and signs -> place and words of the first."""
    found: dict[str, tuple[int, str]] = {}
    for match in _SENTENCE.finditer(text):
        plain = " ".join(re.findall(r"[^\W\d_]+", match[0].casefold()))
        if plain:
            shown = match[0].lstrip(" •")
            found.setdefault(plain, (match.end() - len(shown), shown.rstrip()))
    return found
