"""Runs of other harnesses that are in a store: what their benchmarks and questions are, and what to say of them."""
