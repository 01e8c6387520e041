"""From rows about models on this machine to their goals and their table: no processes, no clocks."""

from __future__ import annotations

from collections.abc import Sequence

from bench.table import Goal, Row, table


def judge(rows: Sequence[Row]) -> list[Goal]:
    """Every goal of models on this machine, against these rows."""
    good = {row.mode: row.reported for row in rows if row.harness == "local" and row.counts}

    def ratio(mode: str, above: str, below: str) -> float | None:
        return good[mode][above] / good[mode][below] if mode in good else None

    return [
        Goal(
            name=f"hf/ on the processor, times the speed of {what}",
            value=ratio("hf", "ours_tokens_per_s", name),
            limit=2,
            unit="x",
            at_least=True,
        )
        for what, name in (
            ("one `generate` after the other", "one_tokens_per_s"),
            ("`generate` in batches as requests arrive", "batched_tokens_per_s"),
        )
    ] + [
        Goal(
            name="time of vllm/ for each of the OpenAI path's",
            value=ratio("vllm", "openai_per_s", "vllm_per_s"),
            limit=1.5,
            unit="x",
        )
    ]


def local_table(rows: Sequence[Row]) -> str:
    """What the processes did, and how fast; empty if no such row counts."""
    good = {row.mode: row.reported for row in rows if row.harness == "local" and row.counts}
    lines: list[tuple[str, str]] = []
    if told := good.get("hf"):
        what = f"{told['requests']:.0f} requests of mixed lengths, {told['tokens']:,.0f} tokens written, processor"
        lines += [
            (f"hf/: {what}", f"{told['ours_tokens_per_s']:,.0f} tokens/s"),
            (
                "`generate`, one request after the other, with one thread or all: the faster",
                f"{told['one_tokens_per_s']:,.0f} tokens/s",
            ),
            (
                "`generate`, batches of 16 in order of arrival, likewise",
                f"{told['batched_tokens_per_s']:,.0f} tokens/s",
            ),
            ("answers that are the same as those of `generate`", f"{told['same_answers']:.0f}"),
        ]
    if told := good.get("hf-gpu"):
        lines += [
            (f"hf/ on a GPU, {told['weights_gib']:.0f} GiB of random weights", f"{told['tokens_per_s']:,.0f} tokens/s"),
            ("share of what the memory's bandwidth allows", f"{told['share_of_bandwidth']:.0%}"),
        ]
    if told := good.get("vllm"):
        lines += [
            ("vllm/, a stand-in of a server", f"{told['vllm_per_s']:,.0f} requests/s"),
            ("the same stand-in as openai/", f"{told['openai_per_s']:,.0f} requests/s"),
        ]
    return table(["models on this machine", "measured"], lines) if lines else ""
