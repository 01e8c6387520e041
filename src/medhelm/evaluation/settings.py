"""The options of an evaluation, and its result."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, get_args

from medhelm.domain import STANDARD, RubricName, Run, Shard, Tier
from medhelm.domain.benchmark import is_rubric_file
from medhelm.domain.option_fields import option, option_of
from medhelm.domain.result import Displayable

FIRST_IN_FLIGHT, MAXIMUM_IN_FLIGHT = 16, 128
"""Requests in flight per endpoint, at first and at most, unless the user sets a limit."""

StopReason = Literal["", "budget", "interrupt"]
"""Reason for an early end; empty if there was none."""


def _checked_proxy(text: str) -> str:
    """Return the address of a proxy. Raises: ValueError if it is malformed."""
    from medhelm.models.addresses import checked_proxy  # lazy: the help needs none

    return checked_proxy(text)


def parse_rubric(text: str) -> str:
    """Return the choice of a rubric. Raises: ValueError for one that is neither a known name nor a YAML file."""
    if text not in get_args(RubricName) and not is_rubric_file(text):
        raise ValueError(f"must be {', '.join(get_args(RubricName))} or a YAML file, is {text!r}.")
    return text


def parse_names(text: str) -> tuple[str, ...]:
    """Return the names in a list with commas, each once. Raises: ValueError for a list without any."""
    names = tuple(dict.fromkeys(name for part in text.split(",") if (name := part.strip())))
    if not names:
        raise ValueError(f"must name at least one, separated by commas, is {text!r}.")
    return names


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Options of an evaluation that the user chooses."""

    rubric: str = option(
        "--rubric",
        "Criteria for judges: those of the published suite (standard), stricter ones (extended: nothing invented, "
        "safe), or a YAML file with a rubric of your own.",
        STANDARD,
        group="measurement",
        metavar="standard|extended|FILE",
        parse=parse_rubric,
    )
    verification_codes: bool = option(
        "--verification-code/--no-verification-code",
        "Whether judges must copy a code from their prompt into each verdict, so that a verdict planted in a "
        "text is recognized. Without: for judges that never return it; only copies are recognized.  [default: "
        "with]",
        True,
        group="measurement",
    )
    limit: int | None = option("--limit", "Only the first N instances of each benchmark.", group="measurement", least=1)
    subset: int | None = option(
        "--subset",
        "Only N instances of each benchmark, drawn at random with --seed; a larger draw contains the smaller ones.",
        group="measurement",
        least=1,
    )
    seed: int = option(
        "--seed",
        "Seed for random selections and for baseline/random.",
        0,
        group="measurement",
        least=0,
        most=2**32 - 1,
    )
    sample: str = option(
        "--sample",
        "Named selection of instances: all, published (for the whole suite), or one that `medhelm benchmarks "
        "show` lists.",
        "default",
        group="measurement",
        metavar="NAME",
    )
    prompt: str = option(
        "--prompt",
        "Another prompt: a name that `medhelm variants` lists, or a YAML file. Its runs are rows of their own.",
        "",
        group="measurement",
        metavar="NAME|FILE",
    )
    temperature: float = option(
        "--temperature",
        "Sampling temperature. Runs at another one than 0 are rows of their own.",
        0.0,
        group="measurement",
        metavar="T",
        least=0,
        most=2,
    )
    logprobs: bool = option(
        "--logprobs",
        "Also ask servers for the log-probabilities of tokens, which `medhelm confidence` reads. Completions bought "
        "without them are requested again.",
        False,
        group="measurement",
    )
    repeat: int = option(
        "--repeat",
        "Request K completions for each instance. The first counts; the others show how much completions vary.",
        1,
        group="variants",
        metavar="K",
        least=1,
        most=1000,
    )
    perturb: tuple[str, ...] = option(
        "--perturb",
        "Also ask each instance in changed form: names that `medhelm variants` lists, separated by commas, or all.",
        (),
        group="variants",
        metavar="NAME,...",
        parse=parse_names,
    )
    tier: Tier = option(
        "--tier", "Real data or invented sample rows.", "real", group="measurement", choices=get_args(Tier)
    )
    own_data: bool = option(
        "--own-data",
        "The data is your own, in the benchmark's format: do not compare it with the published files, and show "
        "results as a different data set.",
        False,
        group="measurement",
    )
    fresh: bool = option(
        "--fresh",
        "Request new completions instead of using stored ones; the earlier run stays in the store.",
        False,
        group="sending",
    )
    batch: bool = option(
        "--batch",
        "Use the batch APIs of OpenAI and Anthropic: half the price, but results can take a day.",
        False,
        group="sending",
    )
    keep_batches: bool = option(
        "--keep-batches", "Keep collected batches at the provider instead of deleting them.", False, group="sending"
    )
    allow_hosts: tuple[str, ...] = option(
        "--allow-host",
        "Allow this host (or *.SUFFIX, or a network such as 10.20.0.0/16) to receive gated and private "
        "benchmarks and your own data, and to join a pool of servers later; repeatable.",
        (),
        group="spending",
        metavar="HOST",
    )
    max_cost_usd: float | None = option(
        "--max-cost",
        "Stop before spending more than this many US dollars.",
        group="spending",
        metavar="USD",
        above=0,
        kind="dollars",
    )
    proxy: str = option(
        "--proxy",
        "HTTP proxy for hosts outside this machine and private networks, such as http://HOST:3128. Proxy "
        "variables of the environment are ignored.",
        "",
        group="service",
        metavar="URL",
        parse=_checked_proxy,
    )
    concurrency: int | None = option(
        "--concurrency",
        "Requests in flight per endpoint.  [default: adaptive]",
        group="service",
        least=1,
        most=4096,
    )
    timeout_s: float = option(
        "--timeout", "Seconds to wait for one completion.", 600.0, group="service", metavar="SECONDS", above=0
    )
    max_silence_s: float = option(
        "--give-up-after",
        "Give up on a service that has not replied for this long.",
        300.0,
        group="service",
        metavar="SECONDS",
        least=1,
    )
    attempts: int = option("--attempts", "Attempts per request.", 5, group="service", least=1, most=20)
    cluster: str = option(
        "--cluster",
        "Ray cluster that runs hf/ models and neural metrics; auto: the cluster of this machine.",
        "",
        group="cluster",
        metavar="auto|HOST:PORT",
        variable="MEDHELM_CLUSTER",
    )
    actors: int | None = option(
        "--actors",
        "Number of actors on the cluster.  [default: one per GPU, or one per node without GPUs]",
        group="cluster",
        least=1,
        most=4096,
    )
    shard: Shard | None = option(
        "--shard",
        "Only part I of N of each benchmark's instances, selected by their ids; `medhelm merge` combines the parts.",
        metavar="I/N",
        parse=Shard.parse,
    )
    offline: bool = False
    """Send requests to this machine only."""


# --- stored settings --------------------------------------------------------------------------------------------------

MEASUREMENT, VARIANTS = (
    tuple(one.name for one in fields(Settings) if (form := option_of(one)) is not None and form.group == group)
    for group in ("measurement", "variants")
)
"""Settings that change what is measured: a run stores them, and a command that repeats it names them. Those of the
second kind ask for further runs, which store them as their variant."""

RUBRIC_FILE = "rubric_file"
"""Key of a run's settings: the file with the rubric of the user's own that its judges graded by."""

_ALWAYS_STORED = ("sample", "limit", "seed")
"""Those that a run always stores, in this order around the later ones, which it stores where they are not the default.
It holds the tier and the rubric as fields of its own."""


def stored_settings(settings: Settings) -> dict[str, Any]:
    """Return the settings of an evaluation that identify its runs."""
    usual, (sample, limit, seed) = Settings(), _ALWAYS_STORED
    later = [name for name in MEASUREMENT if name not in ("tier", "rubric", *_ALWAYS_STORED)]
    chosen = [name for name in later if getattr(settings, name) != getattr(usual, name)]
    return {name: getattr(settings, name) for name in (sample, limit, *chosen, seed)}


# --- result -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Evaluation(Displayable):
    """The runs of an evaluation, and how it ended."""

    VIEW: ClassVar[str] = "medhelm.results.runs.counted:EVALUATION_VIEW"

    runs: tuple[Run, ...]
    """One for each model and benchmark, in the order of the arguments."""
    stopped: StopReason
    """Reason for an early end; empty if there was none."""
    messages: tuple[str, ...]
    """Messages for the user: models and judges that could not be used, failures, and changed model versions."""
    cost_usd: float
    """Spent in this execution, on models and judges whose price is known."""
    seconds: float
    """Wall-clock time."""
    n_damaged: int = 0
    """Number of stored runs that were not scored again, because one of their files is damaged."""

    @property
    def requests_sent(self) -> int:
        """Number of requests sent in this execution, including retries and those to judges."""
        return sum(requests_sent(run) for run in self.runs)

    @property
    def exit_code(self) -> int:
        """0 all done, 1 some requests, judgments or scores failed, 3 stopped by the budget, 130 interrupted."""
        if self.stopped:
            return {"budget": 3, "interrupt": 130}[self.stopped]
        has_failures = any(not run.is_complete or run.n_failed or _has_missing_scores(run) for run in self.runs)
        return int(has_failures or self.n_damaged > 0)


def requests_sent(run: Run) -> int:
    """Return how many requests a run sent to its model and its judges."""
    judges = run.tallies.values()
    return run.requests_sent + sum(tally.requests_sent for tally in judges)


def _has_missing_scores(run: Run) -> bool:
    """Return whether a judgment failed, or the main metric could not score a completion that exists.

    The published rule counts only where there is no corrected one: it cannot score all that the corrected rule can.
    """
    if any(tally.failed for tally in run.tallies.values()):
        return True
    by_metric = run.estimates["corrected"] or run.estimates["published"]
    main = by_metric.get(run.main_metric)
    return run.n > 0 and (main is None or main.n_failed > run.n_failed)
