"""Keeps a store whole: interrupted replacements, leftovers of killed processes, damaged runs, lost completions."""
