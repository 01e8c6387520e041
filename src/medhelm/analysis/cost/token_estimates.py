"""Estimates of token counts from earlier runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import fsum, sqrt

CHARACTERS_PER_TOKEN = 4.0
"""Assumed for English text and an unknown tokenizer."""

MOST_TOKENS_PER_CHARACTER = 1 / 3
"""Upper bound for an unknown tokenizer: more than any common tokenizer needs for English text."""

UNTESTED_ERROR = 0.25
"""Relative error assumed for a ratio from another benchmark or model: tokenizers and texts differ by about as much."""

LEAST_ERROR = 0.02
"""Minimum relative error of a ratio."""


@dataclass(frozen=True, slots=True)
class TokenRatio:
    """Input tokens for each character of a prompt."""

    tokens_per_character: float
    """The factor."""
    error: float
    """Maximum relative error of the number of tokens."""
    basis: str
    """Basis of the estimate, for people."""
    one_error: float = UNTESTED_ERROR
    """The same for the tokens of a single prompt, which vary more than those of many together."""

    @property
    def most(self) -> float:
        """Upper bound of the tokens per character of a single prompt."""
        return self.tokens_per_character * (1 + self.one_error)


_UNKNOWN_ERROR = CHARACTERS_PER_TOKEN * MOST_TOKENS_PER_CHARACTER - 1
UNKNOWN = TokenRatio(1 / CHARACTERS_PER_TOKEN, _UNKNOWN_ERROR, "4 characters per token", _UNKNOWN_ERROR)
"""Token ratio of a model without earlier runs."""


def learn_token_ratio(characters: Sequence[int], tokens: Sequence[int], basis: str) -> TokenRatio | None:
    """Estimate the tokens per character as the ratio of the sums; None without any character.

    Parameters: characters and tokens, shape (n,), of n prompts. The error is the half-width of the 95% interval of a
    ratio estimator (Cochran 1977, ch. 6) by Student's t with n - 1 degrees of freedom, at least 2%; 25% for a single
    prompt, which says nothing of others. That of one further prompt is t standard deviations of the prompts' own ratios
    about it (1.98 of a hundred prompts, 2.36 of eight), and the error of the factor.

    >>> learn_token_ratio([400, 800], [100, 200], "two prompts").tokens_per_character
    0.25
    """
    n, sent = len(characters), sum(characters)
    if not sent:
        return None
    ratio = sum(tokens) / sent
    if n < 2 or not ratio:
        return TokenRatio(ratio, UNTESTED_ERROR, basis)
    residuals = fsum((t - ratio * c) ** 2 for c, t in zip(characters, tokens, strict=True))
    t = _t(n - 1)
    half_width = t * sqrt(residuals / (n - 1) / n) / (sum(tokens) / n)
    error = max(LEAST_ERROR, half_width)
    spread = fsum((t / (ratio * c) - 1) ** 2 for c, t in zip(characters, tokens, strict=True) if c) / (n - 1)
    return TokenRatio(ratio, error, basis, error + t * sqrt(spread))


@cache
def _t(df: int) -> float:
    """Return the half-width of a 95% interval in standard errors."""
    from medhelm.analysis.means import t_quantile  # lazy: a run needs no interval of tokens

    return t_quantile(0.975, df)


def pool_token_ratios(factors: Sequence[TokenRatio], basis: str) -> TokenRatio | None:
    """Average token ratios, for a text that none of them was learned on; None without any.

    The error is the largest distance of one of them from the mean, at least 25%: other texts are tokenized otherwise.

    >>> pool_token_ratios([TokenRatio(0.2, 0.02, ""), TokenRatio(0.3, 0.02, "")], "others").tokens_per_character
    0.25
    """
    if not factors:
        return None
    mean = fsum(one.tokens_per_character for one in factors) / len(factors)
    furthest = max(abs(one.tokens_per_character / mean - 1) for one in factors)
    error = max(UNTESTED_ERROR, furthest)
    return TokenRatio(mean, error, basis, max(error, *(one.one_error for one in factors)))


@dataclass(frozen=True, slots=True)
class CompletionLength:
    """Tokens of a reply."""

    tokens: float
    """Expected mean."""
    basis: str
    """Basis of the estimate, for people."""
    again: float = 0.0
    """Share of completions that need a second request; judges only."""
    hidden: float = 0.0
    """Share of hidden reasoning tokens."""
