"""Repairs a store: interrupted replacements, leftovers of killed processes, damaged runs, lost completions."""
