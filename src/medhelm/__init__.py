"""Evaluate language models on real medical work."""

__version__ = "0.1.0"
