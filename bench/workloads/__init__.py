"""The workloads: one module each, with its cells, data, commands, goals and table."""

from bench.workloads import exchange, jury, leaderboard, local, plain, providers, suite

WORKLOADS = (
    plain.WORKLOAD,
    jury.WORKLOAD,
    suite.WORKLOAD,
    leaderboard.WORKLOAD,
    exchange.WORKLOAD,
    local.WORKLOAD,
    providers.WORKLOAD,
)
