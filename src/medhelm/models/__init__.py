"""Asking models: providers, and the client that wraps any of them in cache, limits, retries, budget and gate."""
