"""Paired comparison of models: tests, adjustment, power."""
