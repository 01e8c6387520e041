"""Read logs of Inspect, and offer the benchmarks as Inspect tasks."""
