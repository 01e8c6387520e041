"""Files made from the runs of a store: they save time, and can be deleted at any time.

    BENCHMARK-DIGEST-RULE.npz    scores of the runs of a benchmark (`score_file`)
    BENCHMARK-DIGEST-runs.npz    content of their `run.json` (`run_index`)

Each is used only for files of runs whose size, times and number did not change.
"""
