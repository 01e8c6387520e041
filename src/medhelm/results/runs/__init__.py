"""Runs of a store: which of them a command reads, what is known of each, and what is lost with them."""
