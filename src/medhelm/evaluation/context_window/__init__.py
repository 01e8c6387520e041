"""Fit prompts into a model's context window."""
