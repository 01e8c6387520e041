"""Build the leaderboard: cells, averages, win rates, ranks."""
