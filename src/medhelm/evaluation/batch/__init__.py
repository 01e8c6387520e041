"""Buying completions through batch APIs: submit, wait, collect, delete."""
