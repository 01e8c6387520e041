"""Exchange runs with other harnesses: HELM, Inspect, lm-evaluation-harness."""
