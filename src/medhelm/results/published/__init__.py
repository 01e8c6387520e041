"""Published results of nine models on 37 benchmarks: scores, costs and leaderboards."""
