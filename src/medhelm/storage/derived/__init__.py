"""Files made from the runs of a store: they save time, and can be deleted at any time.

    BENCHMARK-DIGEST-RULE.scores     scores of the runs of a benchmark (`score_files`)
    BENCHMARK-DIGEST-RULE-RUN.scores scores of one large run, until they are put into the file of all runs
    BENCHMARK-DIGEST-runs.index      content of their `run.json` (`run_index`)
    checked.json                     files whose checksums were right

Each is used only for files of runs whose size, times and number did not change.
"""
