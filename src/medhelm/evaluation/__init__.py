"""Run an evaluation: decide the requests, send them, score the completions, record the run."""
