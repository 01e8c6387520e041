"""Usage and cost of the runs of stores, from which bills are made.

There are two sums. The `bill` of a run is the cost of repeating it with an empty cache: all of its tokens, whichever
run bought them. What was `spent` counts every purchase once: a completion that runs share, or that came from the cache,
belongs to the first run that holds it. The cache knows purchases that no run holds any more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

from medhelm.analysis.cost import CostCeiling, cost_ceiling, cost_with_batches
from medhelm.domain import Price, Run, Usage
from medhelm.domain.result import Remark
from medhelm.domain.text import plural
from medhelm.errors import StoreError, UserError
from medhelm.models.providers import answers_in_process
from medhelm.results.comparable import default_tier, select_runs, store_label
from medhelm.results.options import EVERY_RUN, Pricing, RunFilter
from medhelm.results.runs.selection import filter_runs
from medhelm.storage.damage import intact_runs
from medhelm.storage.runs import load_runs, load_shards
from medhelm.storage.store import Store, open_store
from medhelm.storage.token_usage import RequestUsage, UsageShare, read_usage

NO_REQUESTS = RequestUsage()
"""The usage of no request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageItem:
    """One line of the bill: a model or a judge in one run, or purchases from a model that belong to no run."""

    run: Run | None = None
    """Run; None for purchases that no stored run holds."""
    model: str
    """Model under test, with its store if there are several; empty if unknown."""
    benchmark: str = ""
    """Benchmark; empty if unknown."""
    judge: str = ""
    """Judge; empty for the model under test."""
    usage: RequestUsage = NO_REQUESTS
    """Usage of all requests of the line."""
    price: Price | None
    """Price per million tokens; None if unknown."""
    bill_usd: float | None = 0.0
    """Cost of repeating it; None if price or tokens are unknown, 0.0 if no run needs it."""
    purchased: RequestUsage
    """Usage bought for this run, and for no earlier run."""
    spent_usd: float | None
    """Cost of `purchased`; None if price or tokens are unknown."""
    ceiling_usd: Decimal | None = Decimal(0)
    """`bill_usd` by the published rule; None if a price or the input is unknown."""
    ceiling: CostCeiling | None = None
    """Cost ceiling of the run by the published rule, judges included; on the model's line, None if unknown."""
    imported: bool = False
    """True if another harness made it: then nothing of it was bought here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """All purchases of some stores."""

    items: tuple[UsageItem, ...]
    """By store, run, and then the model before its judges."""
    counted: Mapping[tuple[str, str], Run]
    """Model and benchmark -> the run that a leaderboard counts."""
    remarks: tuple[Remark, ...]
    """Limits of the numbers, such as unknown prices."""

    def of(self, run: Run) -> list[UsageItem]:
        """Return the lines of one run."""
        return [item for item in self.items if item.run is run]


def read_spending(stores: Sequence[Path], pricing: Pricing, wanted: RunFilter = EVERY_RUN) -> Spending:
    """Compute all purchases of these stores.

    Each store counts by itself: stores share no cache, so the same request was bought in each. `wanted`: only these
    runs count, without purchases that belong to no run. Shared completions belong to the first run of the store, even
    if that run does not count.
    Raises: StoreError naming everything that cannot be read; UserError if nothing was ever bought or run.
    """
    items: list[UsageItem] = []
    runs: list[tuple[str, Run]] = []
    problems: list[StoreError] = []
    n_damaged: dict[Path, int] = {}
    for path in stores:
        label = store_label(path, stores)
        try:
            store = open_store(path)
            own = intact_runs([*load_runs(store, variants=True), *load_shards(store)])
            shares, digests = read_usage(own)
            items += [_usage_item(share, label, pricing) for share in [*_without_requests(own, shares), *shares]]
            leftover, n_damaged[store.cache_file] = _leftover_items(store, digests, own, pricing)
            items += leftover
        except StoreError as error:
            problems.append(error)
            continue
        runs += [(label, run) for run in own]
    if problems:
        raise StoreError("\n".join(map(str, problems)))
    if not items:
        raise UserError(f"nothing was run in {', '.join(map(str, stores))}. `medhelm run` makes runs.")
    if not wanted.is_empty:
        runs = filter_runs(wanted, runs, lambda pair: pair[1])
        kept = {id(run) for _, run in runs}
        items = [item for item in items if id(item.run) in kept]
    place = {id(run): number for number, (_, run) in enumerate(runs)}
    items.sort(key=lambda item: (place.get(id(item.run), len(place)), item.judge))
    tier = default_tier(run for _, run in runs)
    counted = select_runs((label, run) for label, run in runs if run.tier == tier).runs
    return Spending(items=tuple(items), counted=counted, remarks=tuple(_remarks(items, n_damaged)))


def repriced(runs: Sequence[Run], pricing: Pricing) -> list[Run]:
    """Return stored runs with the costs of their completions and judgments computed anew from tokens and prices.

    Raises: StoreError naming every run with missing or damaged files.
    """
    shares, _ = read_usage(runs)
    bills: dict[int, dict[str, UsageItem]] = {}
    for share in [*_without_requests(runs, shares), *shares]:
        bills.setdefault(id(share.run), {})[share.judge] = _usage_item(share, "", pricing)
    return [_with_costs(run, bills[id(run)]) for run in runs]


def _with_costs(run: Run, bills: Mapping[str, UsageItem]) -> Run:
    """Return a run with these costs and prices. `bills`: "" for the model, and by judge."""
    own = bills.get("")
    model = run.resolved_model
    if own is not None and own.price is not None:
        model = model and replace(model, price=own.price)
    jury = run.jury_result
    if jury is not None:
        tallies = {
            name: replace(tally, cost_usd=bills[name].bill_usd) if name in bills else tally
            for name, tally in jury.tallies.items()
        }
        jury = replace(jury, tallies=tallies)
    return replace(run, cost_usd=own.bill_usd if own else run.cost_usd, resolved_model=model, jury_result=jury)


def _without_requests(runs: Iterable[Run], shares: Sequence[UsageShare]) -> list[UsageShare]:
    """Return an empty share for each run whose model ran within this process."""
    with_requests = {id(share.run) for share in shares if not share.judge}
    return [
        UsageShare(run=run, judge="", all=NO_REQUESTS, first=NO_REQUESTS)
        for run in runs
        if id(run) not in with_requests
    ]


def _usage_item(share: UsageShare, label: str, pricing: Pricing) -> UsageItem:
    """Compute one line of a stored run."""
    run = share.run
    imported = run.has_imported_completions and not share.judge  # requests to judges were sent here
    price = _price(run, share.judge, pricing)
    usage = share.all
    if imported:  # another harness sent its requests, which have no digest of ours
        usage = RequestUsage(requests=run.n - run.n_failed, unmetered=0 if run.usage.input else run.n, usage=run.usage)
    purchased = NO_REQUESTS if imported else share.first
    ceiling = None if share.judge else _run_ceiling(run, pricing)
    ceiling_usd = ceiling.input_usd + ceiling.output_usd if ceiling else None
    return UsageItem(
        run=run,
        model=run.model + label,
        benchmark=run.benchmark,
        judge=share.judge,
        usage=usage,
        price=price,
        bill_usd=_cost(usage, price),
        purchased=purchased,
        spent_usd=_cost(purchased, price),
        ceiling_usd=_judge_ceiling(run, price) if share.judge else ceiling_usd,
        ceiling=ceiling,
        imported=imported,
    )


def _leftover_items(
    store: Store, digests: Collection[bytes], runs: Iterable[Run], pricing: Pricing
) -> tuple[list[UsageItem], int]:
    """Return lines for cached requests that no stored run holds, by model and day; and the number of damaged ones.

    They belong to runs that were stopped, replaced or removed, or were sent outside runs. Damaged ones are in no line.
    """
    from medhelm.models.cache_reader import CacheReader  # lazy: leaderboards do not read the cache

    known = {model.name: model for run in runs for model in (run.resolved_model, *run.judges) if model}
    sums: dict[tuple[str, date], RequestUsage] = {}
    with CacheReader(store.cache_file) as cache:
        for purchase in cache.purchases(without=digests):
            tokens = purchase.usage if purchase.metered else Usage()
            usage = RequestUsage(
                requests=1,
                unmetered=not purchase.metered,
                usage=tokens,
                batched=tokens if purchase.batched else Usage(),
            )
            key = (purchase.model, purchase.day)
            sums[key] = _add_usage(sums.get(key, NO_REQUESTS), usage)
        n_damaged = cache.n_damaged
    items = []
    for (name, day), usage in sorted(sums.items(), key=lambda pair: pair[0]):
        model = known.get(name) or pricing.find_model(name)
        price = pricing.price(model, day) if model else None
        items.append(UsageItem(model=name, price=price, purchased=usage, spent_usd=_cost(usage, price)))
    return items, n_damaged


def _add_usage(one: RequestUsage, other: RequestUsage) -> RequestUsage:
    """Return the sum of two usages."""
    return RequestUsage(
        requests=one.requests + other.requests,
        unmetered=one.unmetered + other.unmetered,
        usage=one.usage + other.usage,
        batched=one.batched + other.batched,
    )


def _cost(usage: RequestUsage, price: Price | None) -> float | None:
    """Compute the cost in US dollars; None if price or tokens are unknown, 0.0 without requests."""
    if not usage.requests:
        return 0.0
    if price is None or (usage.unmetered and (price.input or price.output)):
        return None
    return cost_with_batches(usage.usage, usage.batched, price)


def _price(run: Run, judge: str, pricing: Pricing) -> Price | None:
    """Return the price of a judge of a run, or with "" of its model; None if it is unknown."""
    if judge:
        model = next((one for one in run.judges if one.name == judge), None)
    else:
        model = run.resolved_model or pricing.find_model(run.model)
    return pricing.price(model, run_day(run)) if model else None


def _run_ceiling(run: Run, pricing: Pricing) -> CostCeiling | None:
    """Compute a run's cost by the published rule; None if a price, its limit or its prompt tokens are unknown."""
    price = _price(run, "", pricing)
    jury = [pricing.price(judge, run_day(run)) for judge in run.judges]
    is_free = price is not None and not (price.input or price.output or run.judges)
    if price is None or None in jury or not (is_free or _has_ceiling(run)):
        return None
    return _ceiling(run, price, [one for one in jury if one is not None])


def _judge_ceiling(run: Run, price: Price | None) -> Decimal | None:
    """Compute the cost of one judge by the published rule; None if its price or the tokens are unknown."""
    if price is None or not _has_ceiling(run):
        return None
    found = _ceiling(run, Price(input=0.0, output=0.0), [price])
    return found.judge_input_usd + found.judge_output_usd


def _ceiling(run: Run, price: Price, jury: Sequence[Price]) -> CostCeiling:
    """Compute the cost of a run by the published rule, at these prices of its model and its judges."""
    instances = run.n - run.n_failed
    return cost_ceiling(
        input_tokens=run.usage.input, instances=instances, max_tokens=_limit(run), price=price, jury=jury
    )


def _limit(run: Run) -> int:
    """Return the limit on a completion in tokens; 0 if unknown."""
    return int(run.settings.get("max_tokens") or 0)


def _has_ceiling(run: Run) -> bool:
    """Return whether the tokens of the prompts and the limit on completions are known, which the published rule needs.

    A model that answers within this process reports no tokens, although its judges read some.
    """
    return run.n == run.n_failed or bool(run.usage.input and _limit(run))


def is_local(run: Run) -> bool:
    """Return whether the model of a run answers within this process, and costs nothing."""
    return answers_in_process(_provider(run))


def is_replayed(run: Run) -> bool:
    """Return whether the completions of a run come from a file, so that they were bought elsewhere."""
    return _provider(run) == "replay"


def _provider(run: Run) -> str:
    return run.resolved_model.provider if run.resolved_model else run.model.partition("/")[0]


def run_day(run: Run) -> date:
    """Return the date on which a run started."""
    try:
        return datetime.fromisoformat(run.started).date()
    except ValueError:
        raise StoreError(f"{run.folder}: `started` in run.json is not a time ({run.started!r}).") from None


def _remarks(items: Sequence[UsageItem], n_damaged: Mapping[Path, int]) -> Iterator[Remark]:
    """Yield remarks on unknown prices and tokens, batch prices, damaged completions and imported runs.

    `n_damaged`: cache -> number of damaged completions that no run holds.
    """
    unpriced, unmetered, batched, imported = dict[str, None](), dict[str, int](), dict[str, None](), 0
    for item in items:
        name = item.judge or item.model
        if item.price is None and (item.usage.requests or item.purchased.requests):
            unpriced[name] = None
        elif item.usage.unmetered and item.price and (item.price.input or item.price.output):
            unmetered[name] = unmetered.get(name, 0) + item.usage.unmetered
        if item.usage.batched.input or item.purchased.batched.input:
            batched[name] = None
        imported += item.imported
    if batched:
        text = f"Bought at half the price through a batch API, in whole or in part: {', '.join(batched)}."
        yield Remark("batch_price", "", text)
    if unpriced:
        text = (
            f"No price is known for {', '.join(unpriced)}: the cost is unknown, not 0. Give the price with --prices "
            "FILE, or as `price` in models.yaml."
        )
        yield Remark("unknown_price", _single_name(unpriced), text)
    if unmetered:
        counts = ", ".join(f"{name} ({plural(count, 'completion')})" for name, count in unmetered.items())
        text = f"No token counts were reported by {counts}: the cost is unknown, not 0."
        yield Remark("unknown_tokens", _single_name(unmetered), text)
    for cache, n in n_damaged.items():
        if n:
            damaged = "1 completion is" if n == 1 else f"{n:,} completions are"
            cost = f"No run holds {'it' if n == 1 else 'them'}, so the cost is unknown and not counted."
            text = f"{cache}: {damaged} damaged (wrong checksum). {cost} Check the disk."
            yield Remark("damaged_completions", "", text)
    if imported:
        runs = "1 imported run was" if imported == 1 else f"{imported} imported runs were"
        yield Remark("imported_runs", "", f"{runs} made by other harnesses: nothing was bought here for them.")


def _single_name(names: Collection[str]) -> str:
    """Return the name if there is only one, else an empty string."""
    return next(iter(names)) if len(names) == 1 else ""
