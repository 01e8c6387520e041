"""Answers about a store and how they are shown: leaderboard, comparison, cost, jury, agreement, releases."""
