"""Answers about a store: leaderboard, comparison, cost, jury, agreement, releases."""
