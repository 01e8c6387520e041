"""Runs of a store: selection, lists, scores, remarks and deletion."""
