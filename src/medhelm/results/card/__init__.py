"""The evaluation card: one page about an evaluation, for a committee."""
