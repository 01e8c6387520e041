"""Marks of references that need more than the prompt, and scores without them."""
